// Package coef holds the numbers that the kernels of every architecture share.
package coef

// Coefficients of erf and exp, highest power first: erfRef and expRef of
// package simd give their origin.
var (
	ErfNum = []float32{-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
		-5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02}
	ErfDen = []float32{-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
		-7.37332916720468e-03, -1.42647390514189e-02}
	ExpPoly = []float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}
)

// Bounds of the arguments of erf and exp, and ln 2 in two parts.
const (
	ErfMax  = 4
	ExpMin  = -87
	Log2E   = 1.44269504088896341
	Ln2High = 0.693359375
	Ln2Low  = -2.12194440e-4
)

// PrefetchRows is how many rows ahead of the one being read the gather kernels
// ask for. BenchmarkDotU8S8Gather on Zen 4, rows of 64, 128, 448 and 832 bytes:
// 4 ahead takes 8.2, 11.8, 30 and 53 ns a row, none 10.6, 15.9, 35 and 62, and
// 8 or 12 ahead are slower than 4.
const PrefetchRows = 4

// ScanAhead is the distance in bytes at which the scan kernels prefetch, in
// address order: the hardware sees four short streams in the four rows read
// side by side and follows them badly. BenchmarkDotU8S8Scan on Zen 4, rows of
// 128, 448 and 832 bytes: 4,096 ahead takes 4.7, 17 and 32 ns a row, none 4.6,
// 33 and 77; 1,024 is too near, 8,192 a little worse.
const ScanAhead = 4096
