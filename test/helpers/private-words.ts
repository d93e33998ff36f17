// Private words of this project, and the field's word for each. The tidy test requires code and
// documents to use the field's word. Where a word has another meaning in a domain (verbs of the
// NATS protocol, lanes of a vector unit, the gateway of a network), that domain's files are exempt.

/** A pattern of the banned word. */
export interface PrivateWord {
  readonly word: RegExp;
  /** The field's word, to use instead. */
  readonly instead: string;
  /** Paths in which the word has another meaning, or is a published name. */
  readonly elsewhere?: RegExp;
}

export const privateWords: readonly PrivateWord[] = [
  { word: /\bbundles?\b|Bundles?\b/, instead: "shard group" },
  { word: /\brelay|Relay/, instead: "host sum" },
  { word: /\bparcels?\b|Parcel/, instead: "send list" },
  { word: /\bgateways?\b|Gateway/, instead: "aggregator", elsewhere: /radosgw|needs\.ts/ },
  { word: /\bhop\b|\bhops\b|[a-z]Hop\b/, instead: "stage" },
  { word: /\bunborn|\brebear/, instead: "uninitialised, reinitialise" },
  { word: /RowsBelow|FoundRecords/, instead: "BackingStore, FetchedRecords" },
  { word: /\bwards?\b/, instead: "the host whose replicas a buddy holds" },
  { word: /PartCopy|CopiesAtHand/, instead: "PartReplica, ReplicasAtHand" },
  {
    word: /(?<!device\.)\bsalvag/i,
    instead: "partial recovery",
    // The command of a device's thread has the name of its message.
    elsewhere:
      /^actors\/(host\/device|threads\/(device|thread)-program)\.ts$|faults?\/|messages\.ts$/,
  },
  { word: /hearingLate|\blate failures?\b/, instead: "secondary failures" },
  { word: /LeasedRoot|\b(leased|other|second) root\b/, instead: "elected leader, other leader" },
  { word: /\blost queue\b/, instead: "queue recovery" },
  { word: /openDoors|\btenant's door\b/, instead: "flood guard" },
  { word: /\bgated\b/, instead: "fenced transport" },
  { word: /[rR]unTurn/, instead: "allocation" },
  {
    word: /JobVerb|jobVerbs|\bverbs?\b/i,
    instead: "method of the job API, action of an actor's subject",
    elsewhere: /service-discovery|wire\/broker|operations\.md|wire\.md|CHANGELOG/,
  },
  { word: /\bassemblyOf\b|\bAssembly\b|\bsmallAssembly\b/, instead: "generation spec" },
  { word: /\bderive\(|\bDerived\b/, instead: "generation layout" },
  { word: /\bsilentOf\b/, instead: "unresponsive" },
  { word: /\bstandStill\b|\bstandstillOf\b/, instead: "hang, stall" },
  { word: /\bstrik(es?|ers?|ing)\b|\bstruck\b|Striker|didStrike/, instead: "injection, injector" },
  { word: /\btwins?\b|Twin/, instead: "reference run", elsewhere: /accuracy|performance\.md/ },
  { word: /\bJudgement\b|\bjudges?\b/i, instead: "verdict", elsewhere: /CONTRIBUTING/ },
  { word: /\bdisturbed run/, instead: "faulted run" },
  { word: /\bknocks?\b/, instead: "reachability" },
  // Elsewhere, lanes are those of vector units, of a generator, and of batches in a device.
  { word: /\b[lL]anes?\b/, instead: "memory link", elsewhere: /^(?!(src|test)\/wire\/)/ },
  { word: /\bpaces?\b|\bPace\b|PaceOptions/, instead: "progress" },
  { word: /PassLedger|stepsPerPass|\bof each pass\b|\bone pass over the data\b/, instead: "epoch" },
];
