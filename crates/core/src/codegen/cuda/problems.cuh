// The outputs of a matmul and their products, as tables that are known at compile time: a launch, or the header of a kernel's file,
// specializes them. Outputs and the products of an output are numbered from 0; OUTPUTS is the number of outputs.

// Product PLACE of an output: `weight(A)` is the reader of its weight, a type of `weights.cuh` or, for a weight that is stored in the
// 16-bit type of the factors, a pointer; `x(A)` is what it is multiplied with. Of products that are in memory already, `product(A)`.
template <int OUTPUT, int PLACE> struct Problem;

// An output: PRODUCTS products, WIDTH elements of a row, `out(A)` its memory, and `value`, its element in column `row` for token `t`
// from the products' elements there.
template <int OUTPUT> struct Epilogue;
