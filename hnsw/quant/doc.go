// Package quant turns vectors into codes of 8 or 4 bits, compares codes, and
// compares vectors exactly.
//
//	vector ──Encode──► row of codes ─┐
//	                                 ├─ Query.Distances: coarse order, a byte or half a byte a component
//	query ───Bind────► Query ────────┘
//	query, vectors ──Metric.Rescore──► exact distances of the best of them
//
// A code of SQ8 is round(127·v[i]/max|v|), ties to even, the same for stored vectors
// and queries. The distance of two rows is made of the exact integer Σ a[i]·b[i]
// and one or two floats a row; it is the distance of the vectors that the codes
// stand for: those in the direction of the codes with the length of the original
// (1 under Cosine). So a vector is at distance 0 from its copies, or within a
// few units in the last place of it. A code of SQ4 is the number of fifteenths
// from the least component of the vector to the largest; rows of it are compared
// with queries of 8 bits. See format.md for the bytes.
//
// # Invariants
//
//   - Same vector, same bytes; same bytes, same distance, to the bit, on every
//     CPU, at every level of package simd, for any order of calls.
//   - Under SQ8 d(a, b) = d(b, a), and Bind of a vector is BindRow of its row.
//     Under SQ4 a vector is at some small distance from its own row.
//   - Distances of valid vectors are finite. Lower is nearer, for every metric.
//   - The zero vector has all codes 0 and no length: cosine distance 1 to every
//     vector, dot product 0, squared distance |v|². Metric.Validate refuses it
//     under Cosine.
//   - A damaged row can give any float32, NaN included, but reads nothing
//     outside itself.
//
// Under Dot and L2 lengths up to MaxNorm are exact to float32; products of two
// lengths below 1e-38 underflow to 0.
//
// # What was tried
//
// recall@10 of a flat scan of codes against exact neighbors, 200 queries (100
// for L2, dot and outliers), without rescoring and with n candidates rescored:
//
//	                    minilm-90k  wink-100  wink-100  wink-100  minilm, two
//	                    384, cos    100, cos  L2        dot       outlier dims
//	this codec            .9965     .9920     .9900     .9970     .9870
//	 … 12 candidates     1.0000    1.0000    1.0000    1.0000     .9990
//	 … 15, 20, 30, 50    1.0000    1.0000    1.0000    1.0000    1.0000
//	scale max|v|/127      .9940     .9935     .9910     .9950     .9770
//	best clipped scale    .9965     .9920     .9900     .9970     .9870
//	16-bit query          .9960     .9945     .9940    1.0000     .9920
//	random rotation       .9955     .9945     .9890     .9940     .9970
//
// (Two passes of signed Hadamard transforms; outliers: 0.6 and −0.4 added to two
// components of the unit vectors; scale max|v|/127 takes lengths as they come
// out of rounding.) Rescoring 15 candidates for k = 10 makes up for all of it on
// these sets, so there is no rotation, no clipping and no second query plane:
// each would cost time at every bind or distance for an order that rescoring
// gives anyway. TestRecall keeps the first column.
//
// SQ4, one range a vector, no rotation, likewise: minilm-90k .9490, 12 candidates
// .9910, 15 .9995, 20 1.0000. With codes symmetric around 0, as those of SQ8,
// components that are never negative have only eight levels: a walk on
// fashion-mnist 784 (L2) with 17 candidates then finds .978 where ranges find
// .997. Ranges cut at the ends so that the angle to the vector is least find no
// more than the whole ones (wink-100, 17 candidates: .8997 and .8990). So no
// signed Hadamard transform either, and no planes of bits: 4-bit rows are as
// good as 8-bit ones after 15 to 35 candidates on all the sets measured.
//
// Eight bits are too few when all vectors share a large offset and differ by
// less than 1/127 of their largest component (coordinates far from the origin
// under L2): subtract the mean first.
//
// # Cost
//
// Encode and Bind: some 1 ns a component with AVX-512, 2 else. BindRow: 0.2 ns.
// Distances and Scan: one kernel call, see package simd. Nothing allocates, but
// the first Bind of a Query.
package quant
