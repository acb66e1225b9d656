// (rows, cols) float32: each row's exponentials over their sum.
kernel void softmax(float* out, const float* x, int64 rows, int64 cols) {
  parallel_for(rows, 16, [&](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const float* in = x + row * cols;
      float* to = out + row * cols;
      float top = in[0];
      for (int64 i = 1; i < cols; ++i) top = in[i] > top || in[i] != in[i] ? in[i] : top;
      float total = 0;
      for (int64 i = 0; i < cols; ++i) total += to[i] = math::exp(in[i] - top);
      for (int64 i = 0; i < cols; ++i) to[i] /= total;
    }
  });
}
