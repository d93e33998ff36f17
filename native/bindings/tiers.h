// Bindings of the kernels of memory tiers: a cache, its records, and the files of records.

#pragma once

#include "bindings/running.h"
#include "tiers/record-file.h"

namespace {

using namespace osiris;

// placeRows(rowOf, stamps, pins, counts, spareTable, spareFree, head, sets, places, ids, tick,
// words, found): returns 0, or -1 if a row finds no slot. found (5): the counts for `placedOf`.
napi_value placeRows(Call& call) {
  RowCache cache{};
  cache.rowOf = call.ints(0);
  cache.stamps = call.ints(1);
  cache.pins = call.bytes(2);
  cache.counts = call.words(3);
  cache.countsLength = call.length(3);
  cache.spareTable = call.ints(4);
  cache.spareTableLength = call.length(4);
  cache.spareFree = call.ints(5);
  cache.spares = call.length(5);
  cache.head = call.ints(6);
  cache.sets = call.integer(7);
  int32_t *places = call.ints(8), *ids = call.ints(9), *words = call.ints(11);
  const int64_t n = call.length(9), room = call.length(11) / 5;
  const auto tick = static_cast<int32_t>(call.integer(10));
  int32_t* found = call.ints(12);
  if (!call.valid()) return nullptr;
  PlacedLists out{};
  out.placed = words;
  out.missed = words + room;
  out.missedRows = words + 2 * room;
  out.evicted = words + 3 * room;
  out.evictedRows = words + 4 * room;
  const bool good = running().placeRows(cache, places, ids, n, tick, out);
  const int64_t counts[] = {out.distinct, out.missedCount, out.evictedCount, out.conflicts,
                            out.conflictLookups};
  for (int i = 0; i < 5; i++) found[i] = static_cast<int32_t>(counts[i]);
  return call.answer(good ? 0 : -1);
}

// gatherRecords(out, TABLES, places)
void gatherRecords(Call& call) {
  uint8_t* out = call.bytes(0);
  const auto tables = tablesOf(call, 1, false);
  const int32_t* places = call.ints(6);
  const int64_t count = call.length(6);
  if (!call.valid()) return;
  running().gatherRecords(reinterpret_cast<char*>(out), tables[0], places, count);
}

// scatterRecords(TABLES, places, records, at)
void scatterRecords(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const int32_t* places = call.ints(5);
  const int64_t count = call.length(5);
  const uint8_t* records = call.bytes(6);
  const int32_t* at = call.missing(7) ? nullptr : call.ints(7);
  if (!call.valid()) return;
  running().scatterRecords(tables[0], places, count, reinterpret_cast<const char*>(records), at);
}

// bornAt(TABLES, places, ids, key0, key1, purpose, scale, initialState)
void bornAt(Call& call) {
  const auto tables = tablesOf(call, 0, false);
  const int32_t *places = call.ints(5), *ids = call.ints(6);
  const int64_t count = call.length(5);
  const Key key = keyOf(call, 7);
  const uint32_t purpose = call.word(9);
  const auto scale = static_cast<float>(call.number(10));
  const auto state = static_cast<float>(call.number(11));
  if (!call.valid()) return;
  running().bornAt(tables[0], places, ids, count, key.words, purpose, scale, state);
}

// moveRecords(to, toAt, from, fromAt, count, bytes)
void moveRecords(Call& call) {
  uint8_t *to = call.bytes(0), *from = call.bytes(2);
  const int32_t* toAt = call.missing(1) ? nullptr : call.ints(1);
  const int32_t* fromAt = call.missing(3) ? nullptr : call.ints(3);
  const int64_t count = call.integer(4), bytes = call.integer(5);
  if (!call.valid()) return;
  running().moveRecords(reinterpret_cast<char*>(to), toAt, reinterpret_cast<const char*>(from),
                        fromAt, count, bytes);
}

/// Writes the outcome of a batch of records: index of the first row that failed, errno, number of
/// system calls.
void answer(double* outcome, const RecordOutcome& of) {
  outcome[0] = static_cast<double>(of.at);
  outcome[1] = of.error;
  outcome[2] = static_cast<double>(of.calls);
}

// readRecords(outcome, descriptor, recordBytes, rows, wanted, records)
void readRecords(Call& call) {
  double* outcome = call.doubles(0);
  const RecordFile file{static_cast<int>(call.integer(1)), call.integer(2)};
  const int32_t* rows = call.ints(3);
  const uint8_t* wanted = call.bytes(4);
  uint8_t* records = call.bytes(5);
  const int64_t count = call.length(3);
  if (call.valid()) answer(outcome, osiris::readRecords(file, rows, wanted, count, records));
}

// writeRecords(outcome, descriptor, recordBytes, rows, records)
void writeRecords(Call& call) {
  double* outcome = call.doubles(0);
  const RecordFile file{static_cast<int>(call.integer(1)), call.integer(2)};
  const int32_t* rows = call.ints(3);
  const uint8_t* records = call.bytes(4);
  const int64_t count = call.length(3);
  if (call.valid()) answer(outcome, osiris::writeRecords(file, rows, count, records));
}

// dropCached(descriptor): returns an errno, or 0 for success
napi_value dropCached(Call& call) {
  const int descriptor = static_cast<int>(call.integer(0));
  if (!call.valid()) return nullptr;
  return call.answer(osiris::dropCached(descriptor));
}

}  // namespace
