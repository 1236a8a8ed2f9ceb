package simd

// PanelCols is the number of columns of a panel of packed weights.
const PanelCols = 32

// GemmRows is the granule of the rows of MulU8S8.
const GemmRows = 4

// Weights are an 8-bit matrix of K rows (inputs) and N columns (outputs),
// packed for MulU8S8.
type Weights struct {
	// K is a multiple of 4, better of 16, N of PanelCols.
	K, N int
	// Packed holds N/PanelCols panels of K·PanelCols bytes. Byte
	// (k/4)·128 + 4·c + k mod 4 of panel p is the weight of input k and
	// column 32·p + c.
	Packed []int8
	// Sums are the sums of the columns of the matrix. Kernels that have no
	// product of unsigned and signed bytes count on them.
	Sums []int32
	// Scale and Bias of each column.
	Scale, Bias []float32
}

// PackWeights writes the packed form of the matrix w of n rows (outputs) of k
// components (inputs), one row after the other, to dst and the sums of its
// rows to sums. n is a multiple of PanelCols, k of 4; dst holds n·k bytes.
func PackWeights(dst []int8, sums []int32, w []int8, n, k int) {
	for j := range n {
		row := w[j*k : (j+1)*k]
		panel := dst[j/PanelCols*PanelCols*k:]
		c := 4 * (j % PanelCols)
		var sum int32
		for i, v := range row {
			panel[i/4*4*PanelCols+c+i%4] = v
			sum += int32(v)
		}
		sums[j] = sum
	}
}

// Rows are activations quantized row by row: component i of row r stands for
// Scale[r]·(Codes[r·K+i] − Zero[r]).
type Rows struct {
	K     int
	Codes []byte
	Scale []float32
	Zero  []int32
}

// MulU8S8 sets rows [first, first+m) of out, stride floats apart, to the
// product of these rows of a and w:
//
//	out[r][j] = ((float32(Σ code·w − zero·sum[j])·scale[r])·Scale[j]) + Bias[j]
//
// The sum is an exact 32-bit integer (K ≤ 32,768), every float step one
// rounded operation in this order. a.K is w.K. When m is no multiple of GemmRows
// or K none of 16, the reference runs, far slower: callers round their buffers
// up. It panics when a slice is too short.
func MulU8S8(a *Rows, first, m int, w *Weights, out []float32, stride int) {
	if m <= 0 || w.N == 0 {
		return
	}
	end := first + m
	g := gemm{
		k: w.K, m: m, stride: stride, panels: w.N / PanelCols,
		codes: a.Codes[first*w.K : end*w.K], rowScale: a.Scale[first:end], rowZero: a.Zero[first:end],
		packed: w.Packed[:w.K*w.N], sums: w.Sums[:w.N], colScale: w.Scale[:w.N], bias: w.Bias[:w.N],
		out: out[first*stride : (end-1)*stride+w.N],
	}
	g.run()
}

// gemm holds the checked operands of MulU8S8.
type gemm struct {
	k, m, stride, panels int
	codes                []byte
	rowScale             []float32
	rowZero              []int32
	packed               []int8
	sums                 []int32
	colScale, bias       []float32
	out                  []float32
}

// MulF32 sets c = a·b: m rows of a (lda floats apart, k used) against b of k
// rows (ldb apart) and n columns; when n is no multiple of 16, the reference
// runs, far slower. A sum starts at 0 and
// adds product after product in the order of k, each with one rounding (fused,
// on every level). It panics when a slice is too short.
func MulF32(a []float32, lda int, b []float32, ldb int, c []float32, ldc, m, k, n int) {
	if m <= 0 || n <= 0 {
		return
	}
	k = max(k, 0)
	a, b, c = a[:(m-1)*lda+k], b[:max((k-1)*ldb+n, 0)], c[:(m-1)*ldc+n]
	mulF32(a, lda, b, ldb, c, ldc, m, k, n)
}
