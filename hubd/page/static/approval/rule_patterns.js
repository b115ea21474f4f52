// Patterns of rules that would allow a call and others like it. Pure.

import { visible } from "../text.js";

const FILE_TOOLS = ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead"];
// A word of a shell command that means only itself, and one that looks like a subcommand.
const PLAIN_WORD = /^[\w./:@%+,-]+$/;
const SUBCOMMAND = /^[a-z][a-z0-9-]*$/;
// Programs without subcommands. Of others, the first word after the program is part of the pattern.
const PLAIN_PROGRAMS = new Set([
  ...["awk", "cat", "cp", "cut", "diff", "du", "echo", "file", "find", "grep", "head", "jq", "ls", "mkdir"],
  ...["mv", "mypy", "pytest", "rg", "rm", "ruff", "sed", "sort", "stat", "tail", "touch", "tree", "uniq", "wc"],
]);
const FIELDS = ["command", "path", "url", "query", "pattern"];

// Return patterns that a person may want for a tool call. `commands` are the simple commands of a
// shell command, as `rules_test` reports them.
export function suggestedPatterns(tool, input, commands = []) {
  if (tool === "Bash") return [...new Set(commands.map(commandPattern))];
  const path = [input.file_path, input.notebook_path, input.path].find((value) => typeof value === "string");
  if (FILE_TOOLS.includes(tool) && path) return [filePattern(path)];
  if (tool === "WebFetch") return [urlPattern(input.url)];
  const field = FIELDS.find((name) => typeof input[name] === "string");
  return [field ? `${field}=${literal(input[field])}` : "input=*"];
}

function commandPattern(command) {
  const words = command.split(" ");
  if (!PLAIN_WORD.test(words[0])) return literal(command);
  const hasSubcommand = words.length > 1 && SUBCOMMAND.test(words[1]) && !PLAIN_PROGRAMS.has(words[0]);
  return `${hasSubcommand ? `${words[0]} ${words[1]}` : words[0]} *`;
}

// All files of a folder; only this file if its folder is the root or not known.
function filePattern(path) {
  const end = path.lastIndexOf("/") + 1;
  return end > 1 ? `${literal(path.slice(0, end))}*` : literal(path);
}

function urlPattern(url) {
  try {
    const { protocol, host } = new URL(url);
    return `${protocol}//${literal(host)}/*`;
  } catch {
    return literal(String(url ?? "*"));
  }
}

// Return a glob that matches this text. Each line of the form is a pattern, so a line break in the
// text, which would begin another one, becomes `?`; hidden characters do, too.
function literal(text) {
  return [...text.replace(/[*?[]/g, (character) => `[${character}]`)]
    .map((character) => (character === "\n" || visible(character) !== character ? "?" : character))
    .join("");
}
