// JSON parsed like `JSON.parse`, without its losses. RFC 8259 leaves numbers and repeated names to
// the reader; Python's json module, which keeps all digits, computed the integers below.

import test from "ava";
import {
  jsonDepthMax,
  longAsText,
  membersOf,
  parseExactly,
  shownJson,
} from "../../src/ports/json/exact-json.ts";
import { fc } from "../helpers/properties.ts";

test("an integer beyond 2^53 keeps its digits, and other values equal JSON.parse's", (t) => {
  for (const [text, value] of [
    ["1474671338756698595", 1474671338756698595n],
    ["-9223372036854775808", -(2n ** 63n)],
    ["9007199254740991", 9007199254740991],
    ["9007199254740992", 9007199254740992n],
    ["[1152921504606846976]", [1152921504606846976n]],
    ["123456789012345678901234567890", 123456789012345678901234567890n],
    ["0.1234567890123456789", 0.12345678901234568],
    ["1234567890123456789.5", 1234567890123456800],
    ["1e20", 1e20],
    ["12345678901234567E2", 1234567890123456800],
    [
      '{"a":"1474671338756698595","b\\"":[true,null,{"c":-12345678901234567}]}',
      {
        a: "1474671338756698595",
        'b"': [true, null, { c: -12345678901234567n }],
      },
    ],
    ['{"__proto__":12345678901234567}', JSON.parse('{"__proto__":1}', () => 12345678901234567n)],
    [
      ' { "x" : [ 12345678901234567 , "\\u00e9\\\\" , { } , [ ] ] } ',
      {
        x: [12345678901234567n, "é\\", {}, []],
      },
    ],
  ] as const) {
    if (text.includes("__proto__"))
      t.deepEqual(Object.keys(parseExactly(text) as object), ["__proto__"]);
    else t.deepEqual(parseExactly(text), value, text);
  }
});

function isLong(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
}

test("any value is read back, in either mode", (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      // A float64 beyond 2^53 is written without a point: its digits look like those of an integer.
      const text = JSON.stringify(value, (_, one) => (isLong(one) ? 0.5 : one));
      t.deepEqual(parseExactly(text), JSON.parse(text));
      // A long integer beside the value makes the parser mark the text.
      t.deepEqual(
        parseExactly(`[12345678901234567, ${JSON.stringify(JSON.parse(text), null, 1)}]`),
        [12345678901234567n, JSON.parse(text)],
      );
    }),
    { numRuns: 300 },
  );
});

test("invalid JSON is refused as by JSON.parse, and so is a repeated name", (t) => {
  for (const text of [
    "",
    "{",
    "01",
    "[1,]",
    '{"a":1 "b":2}',
    "0000000000000000001",
    "NaN",
    '"\n"',
  ]) {
    t.throws(() => parseExactly(text), { instanceOf: SyntaxError }, text);
  }
  for (const text of ['{"a":1,"a":2}', '{"b":{"a":1,"\\u0061":1}}', '[{"7":1,"7":1}]']) {
    t.throws(() => parseExactly(text), { message: "an object has a name twice" }, text);
  }
  t.notThrows(() => parseExactly('[{"a":1},{"a":":"}]'));
  const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  t.notThrows(() => parseExactly(deep(jsonDepthMax)));
  t.throws(() => parseExactly(deep(1_000_000)), { message: /at most 512 levels/ });
});

test("options keep an integer beyond 2^53 as its text, at any depth", (t) => {
  const read = parseExactly('{"a":[9007199254740993,7,{"b":-9007199254740993}],"c":null,"d":0.5}');
  t.deepEqual(longAsText(read), {
    a: ["9007199254740993", 7, { b: "-9007199254740993" }],
    c: null,
    d: 0.5,
  });
  const bytes = Uint8Array.of(1);
  t.is(longAsText(bytes), bytes);
});

test("integer names keep the order of the text where objects may be maps", (t) => {
  const text = '{"9":1,"weights":{"10":0.5,"2":1,"a":3}}';
  const read = parseExactly(text, { mayBeMaps: true }) as { weights: object };
  t.false(read instanceof Map);
  t.deepEqual(
    [...membersOf(read.weights)],
    [
      ["10", 0.5],
      ["2", 1],
      ["a", 3],
    ],
  );
  t.deepEqual(
    [...membersOf({ b: 1, a: 2 })],
    [
      ["b", 1],
      ["a", 2],
    ],
  );
  t.deepEqual(parseExactly(text), JSON.parse(text));
  t.is(
    shownJson([read.weights, 12345678901234567n]),
    '[{"2":1,"10":0.5,"a":3},"12345678901234567"]',
  );
  t.is(shownJson(12345678901234567n), "12345678901234567");
});
