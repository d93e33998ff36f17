// The port for the end of an event loop turn, so that callers can handle events of one turn
// together.

/** Calls `task` after the events that have arrived by now are handled. */
export type NextTurn = (task: () => void) => void;

/** The end of the real event loop's turn. */
export const nextTurn: NextTurn = (task) => {
  setImmediate(task);
};
