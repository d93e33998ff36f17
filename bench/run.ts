// The benches' command line: `npm run bench -- exchange --only shared.allToAll`.

import { benchCommand } from "./command.ts";

await benchCommand().parseAsync();
