// Reads a unified diff, and describes changes. The functions are pure.

import { counted } from "./words.js";

/** The number of characters of a line that a comment quotes. */
const QUOTED_CHARS = 200;

/**
 * @typedef {{kind: "hunk" | "added" | "removed" | "same" | "note", text: string,
 *   line: number | null}} DiffLine
 */

/**
 * Returns the lines of the diff of one file. `line` is the number in the new file, or in the old
 * file for a removed line.
 * @param {string} diff
 * @returns {DiffLine[]}
 */
export function linesOf(diff) {
  /** @type {DiffLine[]} */
  const lines = [];
  let [before, after] = [0, 0];
  let isInHunk = false;
  for (const text of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(text);
    if (hunk) {
      [before, after, isInHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      lines.push({ kind: "hunk", text, line: null });
    } else if (!isInHunk) {
      // The names of the files before the first hunk are in the heading already.
      if (text !== "" && !/^(---|\+\+\+|diff |index )/.test(text)) {
        lines.push({ kind: "note", text, line: null });
      }
    } else if (text.startsWith("+")) {
      lines.push({ kind: "added", text: text.slice(1), line: after++ });
    } else if (text.startsWith("-")) {
      lines.push({ kind: "removed", text: text.slice(1), line: before++ });
    } else if (text.startsWith("\\")) {
      lines.push({ kind: "note", text: text.slice(2), line: null });
    } else {
      lines.push({ kind: "same", text: text.slice(1), line: after++ });
      before += 1;
    }
  }
  return lines;
}

/**
 * Returns the message for a comment on a line. It has the form of the terminal's comments.
 * @param {string} file
 * @param {DiffLine} line
 * @param {string} text
 */
export function comment(file, line, text) {
  const place = line.line === null ? "" : `, line ${line.line}`;
  const quoted = line.text.trimEnd().slice(0, QUOTED_CHARS);
  return `Review of ${file}${place}:${quoted ? `\n> ${quoted}` : ""}\n\n${text}`;
}

/**
 * Says how many files of a branch are not committed. Says nothing if all are.
 * @param {string[]} [files]
 */
export function notCommitted(files = []) {
  return files.length ? `, ${counted(files.length, "file")} not committed` : "";
}
