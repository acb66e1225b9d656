// x, out: (rows, cols) float32; w, b: (cols). One block of 256 threads a row.
__device__ float sum_of_all(float value, float* held) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncthreads();
    if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < 8; ++warp) value += held[warp];
    return value;
}

extern "C" __global__ void norm_rows(float* out, const float* x, const float* w, const float* b, int cols, float eps) {
    __shared__ float held[8];
    const float* row = x + (long long)blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 256) sum += row[i];
    float mean = sum_of_all(sum, held) / cols;
    for (int i = threadIdx.x; i < cols; i += 256) squares += (row[i] - mean) * (row[i] - mean);
    float scale = 1.0f / sqrtf(sum_of_all(squares, held) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += 256)
        out[(long long)blockIdx.x * cols + i] = (row[i] - mean) * scale * w[i] + b[i];
}
