// The end of a turn of the event loop, as an argument: what came in together is handled together.

/** Has `task` called when what has come in by now was handled. */
export type NextTurn = (task: () => void) => void;

/** The event loop's own. */
export const nextTurn: NextTurn = (task) => {
  setImmediate(task);
};
