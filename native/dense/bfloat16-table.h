// The kernels of dense layers with bfloat16 operands: rows of native/table.h.

/// The dense kernels with bfloat16 operands.
KERNEL(void, linearBfloat16, float* out, const float* x, const float* w, const float* b,
       int64_t samples, int64_t inputs, int64_t outputs, bool relu)
KERNEL(void, dLinearInputBfloat16, float* dX, const float* dOut, const float* w, int64_t samples,
       int64_t inputs, int64_t outputs, const Addends& plus, Optional<const float> above)
KERNEL(void, dLinearWeightBfloat16, float* const* dW, float* const* dB, const float* dOut,
       const float* x, int64_t inputs, int64_t outputs, const Slices& slices)
