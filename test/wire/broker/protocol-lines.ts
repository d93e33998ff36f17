// The NATS client protocol as conversations: the lines that a client sends, the server's answer,
// and whether the server then closes the connection. The rules are from docs.nats.io, "Client
// Protocol"; spellings of -ERR are nats-server's.

/** One rule, as a conversation. */
export interface ProtocolLine {
  readonly rule: string;
  /** Lines, each sent with CR LF. If the connection stays open, the last line is PING. */
  readonly send: readonly string[];
  /** All that the server sends after INFO, without the PONG that ends an open conversation. */
  readonly answer: string | RegExp;
  readonly isCut?: true;
}

const quiet = 'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}';
const pedantic = quiet.replace('"pedantic":false', '"pedantic":true');
const simple = 'CONNECT {"verbose":false,"pedantic":false}';
/** A server may send the reason, or close without one. */
const cutByParser = /^(-ERR 'Parser Error'\r\n)?$/;
const cutForHeaders = /^(-ERR 'message headers not supported'\r\n)?$/;
const long = "s".repeat(2000);

function stays(rule: string, send: readonly string[], answer: string | RegExp): ProtocolLine {
  return { rule, send: [...send, "PING"], answer };
}

function cuts(rule: string, send: readonly string[], answer: string | RegExp): ProtocolLine {
  return { rule, send, answer, isCut: true };
}

const connect: readonly ProtocolLine[] = [
  stays("PING is answered before CONNECT", [], ""),
  stays("before CONNECT a client is verbose", ["SUB a 1"], "+OK\r\n"),
  stays("CONNECT {} is verbose", ["CONNECT {}"], "+OK\r\n"),
  stays(
    "a verbose client has +OK for each command",
    ["CONNECT {}", "SUB a 1", ...pubs("a"), "UNSUB 1"],
    "+OK\r\n+OK\r\n+OK\r\nMSG a 1 0\r\n\r\n+OK\r\n",
  ),
  stays("CONNECT may come twice", ["CONNECT {}", simple], "+OK\r\n"),
  stays("what the second leaves out stays", [simple, "CONNECT {}"], ""),
  stays("unknown fields of CONNECT are ignored", ['CONNECT {"verbose":false,"zzz":[5]}'], ""),
  stays("a field that is null counts as left out", ['CONNECT {"verbose":null}'], "+OK\r\n"),
  stays("a name may be long", [`CONNECT {"verbose":false,"name":"${long}"}`], ""),
  stays("blanks around the JSON are skipped", ['CONNECT    {"verbose":false}   '], ""),
  cuts("CONNECT needs JSON", ["CONNECT {bad"], cutByParser),
  cuts("CONNECT needs an object", ["CONNECT []"], cutByParser),
  cuts("fields of CONNECT have types", ['CONNECT {"verbose":"yes"}'], cutByParser),
  cuts(
    "protocol is 0 or 1",
    ['CONNECT {"verbose":false,"protocol":2}'],
    "-ERR 'invalid client protocol'\r\n",
  ),
  cuts(
    "no_responders needs headers",
    ['CONNECT {"verbose":false,"no_responders":true}'],
    "-ERR 'no responders requires headers support'\r\n",
  ),
];

const frames: readonly ProtocolLine[] = [
  stays("verbs in any case", [quiet, "SuB a 1", "pUb a 1", "x"], "MSG a 1 1\r\nx\r\n"),
  stays(
    "words are set apart by tabs",
    [quiet, "SUB\ta\t1", "PUB\ta\t1", "x"],
    "MSG a 1 1\r\nx\r\n",
  ),
  stays("MSG has the reply", [quiet, "SUB a 1", "PUB a r.s 1", "x"], "MSG a 1 r.s 1\r\nx\r\n"),
  stays("a payload may be empty", [quiet, "SUB a 1", "PUB a 0", ""], "MSG a 1 0\r\n\r\n"),
  stays(
    "a payload may have line ends",
    [quiet, "SUB a 1", "PUB a 2", "\r\n"],
    "MSG a 1 2\r\n\r\n\r\n",
  ),
  stays(
    "a subject may be as long as the control line allows",
    [quiet, `SUB ${long} 1`, `PUB ${long} 1`, "x"],
    `MSG ${long} 1 1\r\nx\r\n`,
  ),
  stays(
    "UTF-8 that ends with the byte of a Latin-1 blank",
    [quiet, "SUB \u00c3\u00a0 1", "PUB \u00c3\u00a0 1", "x", "SUB b \u00c3\u00a0", "PUB b 1", "y"],
    "MSG \u00c3\u00a0 1 1\r\nx\r\nMSG b \u00c3\u00a0 1\r\ny\r\n",
  ),
  stays("PONG may come unasked", [quiet, "PONG"], ""),
  stays(
    "a sid is any word",
    [quiet, "SUB a my-sid_1", "PUB a 1", "x"],
    "MSG a my-sid_1 1\r\nx\r\n",
  ),
  stays("echo: false", ['CONNECT {"verbose":false,"echo":false}', "SUB a 1", "PUB a 0", ""], ""),
  stays(
    "each subscription that overlaps gets the message",
    [quiet, "SUB a 1", "SUB * 2", "SUB > 3", "PUB a 0", ""],
    /^(MSG a [123] 0\r\n\r\n){3}$/,
  ),
];

const subjects: readonly ProtocolLine[] = [
  stays(
    "* is one token",
    [quiet, "SUB a.* 1", ...pubs("a", "a.b", "a.b.c")],
    "MSG a.b 1 0\r\n\r\n",
  ),
  stays(
    "> is one token or more",
    [quiet, "SUB a.> 1", ...pubs("a", "a.b", "a.b.c")],
    messages("a.b", "a.b.c"),
  ),
  stays(
    "a.*.>",
    [quiet, "SUB a.*.> 1", ...pubs("a.b", "a.b.c", "a.b.c.d")],
    messages("a.b.c", "a.b.c.d"),
  ),
  stays(
    "* inside a token is a letter",
    [quiet, "SUB a*.b 1", ...pubs("ax.b", "a*.b")],
    messages("a*.b"),
  ),
  stays(
    "> inside a token is a letter",
    [quiet, "SUB a>.b 1", ...pubs("ax.b", "a>.b")],
    messages("a>.b"),
  ),
  stays("a published * comes once", [quiet, "SUB * 1", ...pubs("*")], messages("*")),
  stays("subjects have cases", [quiet, "SUB a 1", ...pubs("A", "a")], messages("a")),
  ...["a..b", ".a", "a.", ">.a", "a.>.b"].map((subject) =>
    stays(`SUB ${subject} is refused`, [quiet, `SUB ${subject} 1`], "-ERR 'Invalid Subject'\r\n"),
  ),
  ...["a..b", ".a", "a."].map((subject) =>
    stays(`PUB ${subject} reaches nobody`, [quiet, "SUB > 1", ...pubs(subject)], ""),
  ),
  stays(
    "a pedantic client is told of a bad subject",
    [pedantic, "SUB > 1", ...pubs("a..b")],
    "-ERR 'Invalid Publish Subject'\r\n",
  ),
  stays(
    "a published wildcard is a word",
    [quiet, "SUB b 1", "SUB a.* 2", ...pubs("a.*")],
    "MSG a.* 2 0\r\n\r\n",
  ),
];

const unsubscribing: readonly ProtocolLine[] = [
  stays("UNSUB ends a subscription", [quiet, "SUB a 1", "UNSUB 1", ...pubs("a")], ""),
  stays("a sid that is taken", [quiet, "SUB a 1", "SUB a 1", ...pubs("a")], messages("a")),
  stays("UNSUB of what is not there", [quiet, "UNSUB 9", "UNSUB 9 5"], ""),
  stays(
    "UNSUB with a maximum",
    [quiet, "SUB a 1", "UNSUB 1 2", ...pubs("a", "a", "a")],
    messages("a", "a"),
  ),
  stays(
    "a maximum that is reached",
    [quiet, "SUB a 1", ...pubs("a"), "UNSUB 1 1", ...pubs("a")],
    messages("a"),
  ),
  stays(
    "a maximum may be raised",
    [quiet, "SUB a 1", "UNSUB 1 1", "UNSUB 1 2", ...pubs("a", "a", "a")],
    messages("a", "a"),
  ),
  stays("0 is no maximum", [quiet, "SUB a 1", "UNSUB 1 0", ...pubs("a")], ""),
  stays("nor is a word", [quiet, "SUB a 1", "UNSUB 1 x", ...pubs("a")], ""),
];

const groups: readonly ProtocolLine[] = [
  stays(
    "one of a queue group",
    [quiet, "SUB a q 1", "SUB a q 2", ...pubs("a")],
    /^MSG a [12] 0\r\n\r\n$/,
  ),
  stays(
    "one of each group, and every plain subscription",
    [quiet, "SUB a q 1", "SUB a r 2", "SUB a 3", ...pubs("a")],
    /^(MSG a [123] 0\r\n\r\n){3}$/,
  ),
  stays(
    "a group may have several patterns",
    [quiet, "SUB a.* q 1", "SUB a.b q 2", ...pubs("a.b")],
    /^MSG a\.b [12] 0\r\n\r\n$/,
  ),
];

const unanswered = "HMSG i.7 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
const noResponders: readonly ProtocolLine[] = [
  stays("a request that nobody takes", [quiet, "SUB i.* 1", "PUB none i.7 1", "x"], unanswered),
  stays(
    "the same with headers",
    [quiet, "SUB i.* 1", "HPUB none i.7 12 12", "NATS/1.0\r\n\r\n"],
    unanswered,
  ),
  stays("not for a publication", [quiet, "SUB i.* 1", ...pubs("none")], ""),
  stays("not where the client did not ask", [simple, "SUB i.* 1", "PUB none i.7 0", ""], ""),
  stays("not on a subscription of a group", [quiet, "SUB i.* q 1", "PUB none i.7 0", ""], ""),
  stays("nor has a bad subject takers", [quiet, "SUB i.* 1", "PUB a..b i.7 0", ""], unanswered),
  stays("not where the client hears no reply", [quiet, "PUB none i.7 0", ""], ""),
  stays(
    "it counts for no maximum",
    [quiet, "SUB i.* 1", "UNSUB 1 1", "PUB none i.7 0", "", "PUB none i.7 0", ""],
    unanswered + unanswered,
  ),
  stays(
    "an own subscription without echo is none",
    [quiet.replace("{", '{"echo":false,'), "SUB none 2", "SUB i.* 1", "PUB none i.7 0", ""],
    unanswered,
  ),
];

const headers: readonly ProtocolLine[] = [
  stays(
    "HPUB comes as HMSG",
    [quiet, "SUB a 1", "HPUB a 12 13", "NATS/1.0\r\n\r\nx"],
    "HMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
  ),
  stays(
    "with a reply",
    [quiet, "SUB a 1", "HPUB a r 12 13", "NATS/1.0\r\n\r\nx"],
    "HMSG a 1 r 12 13\r\nNATS/1.0\r\n\r\nx\r\n",
  ),
  stays(
    "headers may be long",
    [
      quiet,
      "SUB a 1",
      `HPUB a 100016 100016`,
      `NATS/1.0\r\nA: ${"b".repeat(99_999)}\r\n\r\n`.slice(0, 100_016),
    ],
    /^HMSG a 1 100016 100016\r\nNATS\/1\.0\r\nA: b+\r\n/,
  ),
  cuts("the headers are part of the message", [quiet, "HPUB a 14 13"], cutByParser),
  cuts("HPUB has two sizes", [quiet, "HPUB a 13"], cutByParser),
  cuts("HPUB without headers in CONNECT", [simple, "HPUB a 12 12"], cutForHeaders),
];

const violations: readonly ProtocolLine[] = [
  cuts("an unknown verb", [quiet, "SING a song"], "-ERR 'Unknown Protocol Operation'\r\n"),
  cuts("a blank before the verb", [quiet, " PING"], "-ERR 'Unknown Protocol Operation'\r\n"),
  cuts("an empty line", [quiet, ""], "-ERR 'Unknown Protocol Operation'\r\n"),
  cuts("HTTP", ["GET / HTTP/1.1"], "-ERR 'Unknown Protocol Operation'\r\n"),
  ...["SUB", "PUB", "HPUB", "UNSUB"].map((verb) =>
    cuts(`${verb} alone`, [quiet, verb], "-ERR 'Unknown Protocol Operation'\r\n"),
  ),
  ...["SUB a", "SUB a b c d", "PUB a", "PUB a b c 1", "PUB a -1", "PUB a x", "UNSUB 1 2 3"].map(
    (line) => cuts(line, [quiet, line], cutByParser),
  ),
  cuts(
    "a payload without its end",
    [quiet, "PUB a 1", "xyz"],
    "-ERR 'Unknown Protocol Operation'\r\n",
  ),
  cuts(
    "a payload beyond max_payload",
    [quiet, "PUB a 1048577"],
    "-ERR 'Maximum Payload Violation'\r\n",
  ),
  cuts(
    "headers beyond max_payload",
    [quiet, "HPUB a 12 1048577"],
    "-ERR 'Maximum Payload Violation'\r\n",
  ),
  cuts(
    "a control line beyond 4096 bytes",
    [quiet, `SUB ${"s".repeat(4097)} 1`],
    "-ERR 'maximum control line exceeded'\r\n",
  ),
];

/** All rules, by chapter. */
export const chapters: Readonly<Record<string, readonly ProtocolLine[]>> = {
  CONNECT: connect,
  frames,
  subjects,
  UNSUB: unsubscribing,
  "queue groups": groups,
  "no responders": noResponders,
  headers,
  violations,
};

function pubs(...names: readonly string[]): string[] {
  return names.flatMap((subject) => [`PUB ${subject} 0`, ""]);
}

function messages(...names: readonly string[]): string {
  return names.map((subject) => `MSG ${subject} 1 0\r\n\r\n`).join("");
}
