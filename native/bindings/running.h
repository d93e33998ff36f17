// The kernels that a thread runs: the best for this processor, or those of a selected instruction
// set.

#pragma once

#include "bindings/call.h"

namespace {

using namespace osiris;

const Kernels* const best = bestKernels();
thread_local const Kernels* limited = nullptr;

/// The kernels that this thread runs. If there are none, src/ports/addon.ts calls only `built`.
const Kernels& running() { return limited != nullptr ? *limited : *best; }

/// The name and version of the compiler.
#if defined(__clang__)
constexpr const char* compiledBy = __VERSION__;
#else
constexpr const char* compiledBy = "g++ " __VERSION__;
#endif

// built(): returns the instruction set that this thread runs, or undefined if this addon has none
// for this processor; all sets that it was compiled for, separated by blanks; and the compiler.
napi_value built(Call& call) {
  napi_value texts = nullptr;
  const Kernels* const mine = limited != nullptr ? limited : best;
  const char* const parts[] = {mine == nullptr ? nullptr : mine->name, compiledSets(), compiledBy};
  napi_create_array(call.env(), &texts);
  for (uint32_t i = 0; i < 3; i++) {
    if (parts[i] == nullptr) continue;
    napi_value text = nullptr;
    napi_create_string_utf8(call.env(), parts[i], NAPI_AUTO_LENGTH, &text);
    napi_set_element(call.env(), texts, i, text);
  }
  return texts;
}

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

/// The version of the calling convention. It changes when arguments of a function change.
/// src/ports/addon.ts has the same number, and does not use an addon with another one.
napi_value callForm(Call& call) { return call.answer(10); }

}  // namespace
