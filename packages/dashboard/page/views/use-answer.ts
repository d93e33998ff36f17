// A hook that polls an answer of the server while a view is open.

import { useEffect, useState } from "../dom.ts";
import { get } from "../feed.ts";
import type { Store } from "../store.ts";

const pollMs = 3000;

/** The newest answer; undefined before the first. `ask` requests one whole answer. */
export function useAnswer<Answer>(
  path: string,
  store: Store,
  ask: (path: string) => Promise<Answer> = get<Answer>,
): Answer | undefined {
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  useEffect(() => {
    if (store.isFile) return;
    let isOpen = true;
    let isPending = false;
    const again = () => {
      if (document.hidden || isPending) return;
      isPending = true;
      ask(path)
        .then(
          (given) => isOpen && setAnswer(given),
          () => {}, // While the leader is away, the last answer stays.
        )
        .finally(() => {
          isPending = false;
        });
    };
    again();
    const timer = setInterval(again, pollMs);
    return () => {
      isOpen = false;
      clearInterval(timer);
    };
  }, [path]);
  return answer;
}
