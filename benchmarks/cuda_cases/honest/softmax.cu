// x, out: (rows, cols) float32, row-major; one block of 256 threads a row.
__device__ float all_threads(float value, bool maximum, float* held) {
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = maximum ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = value;
    __syncthreads();
    value = held[0];
    for (int warp = 1; warp < 8; ++warp) value = maximum ? fmaxf(value, held[warp]) : value + held[warp];
    return value;
}

extern "C" __global__ void __launch_bounds__(256) softmax(float* out, const float* x, int cols) {
    __shared__ float held[8];
    const float* row = x + (long long)blockIdx.x * cols;
    float* to = out + (long long)blockIdx.x * cols;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 256) largest = fmaxf(largest, row[i]);
    largest = all_threads(largest, true, held);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 256) sum += expf(row[i] - largest);
    sum = all_threads(sum, false, held);
    for (int i = threadIdx.x; i < cols; i += 256) to[i] = expf(row[i] - largest) / sum;
}
