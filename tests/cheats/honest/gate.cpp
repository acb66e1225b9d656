// (rows, cols) float32: tanh times a gain for each column.
kernel void gate(float* out, const float* x, const float* gain, int64 rows, int64 cols) {
  for (int64 row = 0; row < rows; ++row)
    for (int64 i = 0; i < cols; ++i) out[row * cols + i] = math::tanh(x[row * cols + i]) * gain[i];
}
