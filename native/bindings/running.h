// The kernels that a thread runs: the best of this processor, or the kernels of one instruction
// set.

#pragma once

#include "bindings/call.h"

namespace {

using namespace osiris;

const Kernels* const best = bestKernels();
thread_local const Kernels* limited = nullptr;

/// The kernels that this thread runs.
const Kernels& running() { return limited != nullptr ? *limited : *best; }

napi_value arithmetic(Call& call) {
  napi_value name = nullptr;
  napi_create_string_utf8(call.env(), running().arithmetic, NAPI_AUTO_LENGTH, &name);
  return name;
}

// limitIsa(name): for tests and benches, selects the kernels of one instruction set in this thread.
napi_value limitIsa(Call& call) {
  const std::string name = call.text(0);
  if (!call.valid()) return nullptr;
  const Kernels* kernels = kernelsOf(name.c_str());
  if (kernels != nullptr) limited = kernels;
  napi_value result = nullptr;
  napi_get_boolean(call.env(), kernels != nullptr, &result);
  return result;
}

/// The form of the calls that this addon takes. It changes when arguments do, so that an addon is
/// never called by another version of src/ports/addon.ts, which has the same number.
napi_value callForm(Call& call) { return call.answer(9); }

}  // namespace
