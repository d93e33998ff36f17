// The kernels of dense layers in float32, and of interactions: rows of native/table.h.

KERNEL(void, linear, float* out, const float* x, const float* w, const float* b, int64_t samples,
       int64_t inputs, int64_t outputs, bool relu)
/// Packs weights (O,I) into panels of 64 outputs; the last panel is padded.
KERNEL(void, packLayer, float* out, const float* w, int64_t inputs, int64_t outputs)
/// `linear` with weights from `packLayer`.
KERNEL(void, linearPacked, float* out, const float* x, const float* w, const float* b,
       int64_t samples, int64_t inputs, int64_t outputs, bool relu)
KERNEL(void, dRelu, float* d, const float* out, int64_t n)
KERNEL(void, dLinearInput, float* dX, const float* dOut, const float* w, int64_t samples,
       int64_t inputs, int64_t outputs, const Addends& plus, Optional<const float> above)
KERNEL(void, dLinearWeight, float* const* dW, float* const* dB, const float* dOut, const float* x,
       int64_t inputs, int64_t outputs, const Slices& slices)
KERNEL(void, interact, float* out, const float* x, int64_t samples, int64_t features, int64_t dim,
       int64_t copied, bool dots)
KERNEL(void, dInteract, float* dX, const float* dOut, const float* x, int64_t samples,
       int64_t features, int64_t dim, int64_t copied, bool dots)
