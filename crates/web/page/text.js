// Makes text safe to show that an agent, a file or another program wrote. Every character that a
// person could not see is written out, for example as <U+202E>. The page sets all such text as
// text nodes, so it is never read as HTML.

// Characters that control, hide, reorder or look like a blank. Line breaks and tabs stay.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\uFFFC]|[^\S \n\t]/u;
const PLAIN = /^[ -~\n\t]*$/;
// Joiners and variation selectors, which emoji and some scripts need.
const JOINER = /[\u200C\u200D\uFE00-\uFE0F]/u;
const MARK = /\p{M}/u;

/** A character with more combining marks could cover the lines around it. */
const MARKS_MOST = 3;

/**
 * Returns the text with all characters written out that a person could not see.
 * @param {unknown} text
 * @returns {string}
 */
export function visible(text) {
  const whole = typeof text === "string" ? text : text == null ? "" : String(text);
  if (PLAIN.test(whole)) return whole;
  let shown = "";
  let before = "";
  let marks = MARKS_MOST;
  for (const character of whole) {
    const joins = JOINER.test(character) && before > "\u007F" && !HIDDEN.test(before);
    const isMark = MARK.test(character) && !HIDDEN.test(character);
    marks = isMark ? marks + 1 : character === " " || character === "\n" ? MARKS_MOST : 0;
    const stays = joins || (!HIDDEN.test(character) && (!isMark || marks <= MARKS_MOST));
    shown += stays ? character : written(character);
    before = character;
  }
  return shown;
}

/** @param {string} character */
function written(character) {
  const code = character.codePointAt(0) ?? 0;
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

/**
 * Returns the first line of a text, shortened to a number of characters.
 * @param {unknown} text
 * @param {number} most
 */
export function firstLine(text, most) {
  const whole = typeof text === "string" ? text : "";
  const line = whole.trimStart().split("\n", 1)[0] ?? "";
  return shortened(visible(line.slice(0, most * 4)), most);
}

/**
 * Returns a text as one line. Blank lines are left out.
 * @param {unknown} text
 * @param {number} most
 */
export function oneLine(text, most) {
  const whole = (typeof text === "string" ? text : "").slice(0, most * 4);
  const lines = whole.split("\n").map((line) => line.trim());
  return shortened(visible(lines.filter((line) => line !== "").join(" | ")), most);
}

/**
 * @param {string} text
 * @param {number} most
 */
function shortened(text, most) {
  const characters = Array.from(text);
  return characters.length <= most ? text : `${characters.slice(0, most - 1).join("")}…`;
}
