// osiris completion: prints a shell's completion script, generated from the commands and their
// options.

import { Argument, type Command } from "commander";
import { type CommonOptions, withCommon } from "../../support/arguments.ts";

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } as const;
type Shell = keyof typeof scripts;

/** A command or subcommand, and the words that may follow it. */
interface Place {
  /** `checkpoint restore`; empty: `osiris` itself. */
  readonly path: string;
  readonly words: readonly { readonly word: string; readonly description: string }[];
}

export function addCompletion(program: Command): void {
  const command = program
    .command("completion")
    .addArgument(new Argument("<shell>", "shell to complete in").choices(Object.keys(scripts)))
    .description("print a script that makes a shell complete commands and options");
  withCommon(command, [
    "completion bash > ~/.local/share/bash-completion/completions/osiris",
    "completion zsh > ~/.osiris-completion.zsh      # and source that in ~/.zshrc",
    "completion fish > ~/.config/fish/completions/osiris.fish",
  ]).action((shell: Shell, { json }: CommonOptions) => {
    const script = scripts[shell](placesOf(program, []));
    console.log(json === true ? JSON.stringify({ report: "completion", shell, script }) : script);
  });
}

/** The command and all its subcommands, each with the words that may follow it. */
function placesOf(command: Command, path: readonly string[]): Place[] {
  const below = command.commands.map((one) => {
    return { word: one.name(), description: one.description() };
  });
  const flags = command.options.map(({ long, flags: all, description }) => {
    return { word: long ?? all, description };
  });
  const help = { word: "--help", description: "display help for command" };
  const own = { path: path.join(" "), words: [...below, ...flags, help] };
  return [own, ...command.commands.flatMap((one) => placesOf(one, [...path, one.name()]))];
}

/** Completes with the words of the longest command typed so far, else with file names. */
function bashScript(places: readonly Place[]): string {
  const cases = places.map(({ path, words }) => {
    return `    "${path}") words="${words.map(({ word }) => word).join(" ")}" ;;`;
  });
  return `_osiris() {
  local path="" next words="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${places.map(({ path }) => `"${path}"`).join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _osiris osiris`;
}

/** The bash script, which zsh runs by bashcompinit. */
function zshScript(places: readonly Place[]): string {
  const head = "autoload -U +X compinit bashcompinit && compinit && bashcompinit";
  return `${head}\n${bashScript(places)}`;
}

function fishScript(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words }) => {
    const typed = path.split(" ").filter((one) => one !== "");
    const below = words.filter(({ word }) => !word.startsWith("-")).map(({ word }) => word);
    const seen = typed.map((one) => `__fish_seen_subcommand_from ${one}`);
    const not = below.length === 0 ? [] : [`not __fish_seen_subcommand_from ${below.join(" ")}`];
    const when = [...seen, ...not].join("; and ");
    return words.map(({ word, description }) => {
      const text = `-d '${description.replaceAll("'", "\\'")}'`;
      const what = word.startsWith("--") ? `-l ${word.slice(2)}` : `-f -a ${word}`;
      return `complete -c osiris -n '${when}' ${what} ${text}`;
    });
  });
  return lines.join("\n");
}
