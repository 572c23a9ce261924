// The review of what each member has changed: diffs, comments on lines that become messages to the
// author, and the merge of a branch.

import { html, useEffect, useMemo, useState } from "./vendor/preact-htm.js";
import { call, get, inWords, ofTeam } from "./api.js";
import { comment, linesOf } from "./diff.js";
import { link } from "./route.js";
import { useMay } from "./session.js";
import { typed, use } from "./signal.js";
import { visible } from "./text.js";
import { counted } from "./words.js";

/** The number of lines of a diff that are shown at once. */
const LINES_MOST = 1_000;

/** @param {{store: Store, chosen: string}} props */
export function Review({ store, chosen }) {
  const agents = use(store.host).team.agents.filter((agent) => agent.role !== "subagent");
  const shown = agents.find((agent) => agent.name === chosen) ?? agents.at(-1);
  return html`<div class="page">
    <h1>Review</h1>
    <nav class="pills" aria-label="Members">${agents.map((agent) => html`<a key=${agent.name}
      href=${link(store.name, "review", agent.name)}
      aria-current=${agent === shown ? "page" : undefined}>${visible(agent.name)}</a>`)}</nav>
    ${shown && html`<${Changes} key=${shown.name} team=${store.name} name=${shown.name} />`}
  </div>`;
}

/** @param {{team: string, name: string}} props */
function Changes({ team, name }) {
  const [changes, setChanges] = useState(/** @type {MemberChanges | null} */ (null));
  const [error, setError] = useState("");
  async function read() {
    try {
      setChanges(await get(ofTeam(team, "members", name, "changes")));
      setError("");
    } catch (failure) {
      setError(inWords(failure));
    }
  }
  useEffect(() => void read(), []);
  const [mayComment, mayMerge] = [useMay("answer"), useMay("everything")];
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!changes) return html`<p class="loading">Loading…</p>`;
  const { branch, files, problem, left_out } = changes;
  return html`<div class="changes">
    <p class="note">${counted(files.length, "changed file")}${
      branch && html` on branch <code>${visible(branch.name)}</code>, ${
        counted(branch.ahead ?? 0, "commit")} ahead of <code>${visible(branch.base)}</code>${
        (branch.behind ?? 0) > 0 && `, ${branch.behind} behind`}${
        branch.uncommitted && ", with changes that are not committed"}`}${
      " "}<button class="quiet" onClick=${read}>Refresh</button></p>
    ${problem && html`<p class="error">${visible(problem)}</p>`}
    ${files.map((file) => html`<${File} key=${file.path} team=${team} name=${name} file=${file}
      mayComment=${mayComment} />`)}
    ${(left_out ?? 0) > 0 && html`<p class="note">${counted(left_out ?? 0, "more file")} changed.</p>`}
    ${mayMerge && branch?.commit && html`<${Merge} team=${team} name=${name} branch=${branch} read=${read} />`}
  </div>`;
}

/** @param {{team: string, name: string, file: ChangedFile, mayComment: boolean}} props */
function File({ team, name, file, mayComment }) {
  const [isWhole, setIsWhole] = useState(false);
  const [open, setOpen] = useState(-1);
  const lines = useMemo(() => linesOf(file.diff ?? ""), [file.diff]);
  const shown = isWhole ? lines : lines.slice(0, LINES_MOST);
  const path = visible(file.path);
  return html`<details class="file" open>
    <summary><code>${path}</code>${" "}<span class="plus">+${counts(lines, "added")}</span>${" "}<span
      class="minus">−${counts(lines, "removed")}</span></summary>
    ${file.not_shown && html`<p class="note">${visible(file.not_shown)}</p>`}
    <div class="diff" role="table" aria-label=${`Diff of ${path}`}>
      ${shown.map((line, n) => html`<${Line} key=${n} line=${line} isOpen=${n === open}
        mayComment=${mayComment} toggle=${() => setOpen(n === open ? -1 : n)} />
        ${n === open && html`<div role="row"><div role="cell"><${Comment} team=${team} name=${name}
          file=${file.path} line=${line} close=${() => setOpen(-1)} /></div></div>`}`)}
    </div>
    ${lines.length > shown.length && html`<button class="quiet"
      onClick=${() => setIsWhole(true)}>Show all ${lines.length} lines</button>`}
  </details>`;
}

/**
 * @param {import("./diff.js").DiffLine[]} lines
 * @param {string} kind
 */
function counts(lines, kind) {
  return lines.filter((line) => line.kind === kind).length;
}

const SIGNS = { added: "+", removed: "−", same: " ", hunk: "", note: "" };

/**
 * @param {{line: import("./diff.js").DiffLine, isOpen: boolean, mayComment: boolean,
 *   toggle: () => void}} props
 */
function Line({ line, isOpen, mayComment, toggle }) {
  const label = `Comment on ${line.kind === "same" ? "" : `${line.kind} `}line ${line.line}`;
  return html`<div class=${`diff-line ${line.kind}`} role="row">
    <span role="cell" class="number">${line.line !== null && mayComment
      ? html`<button aria-label=${label} aria-expanded=${isOpen}
          onClick=${toggle}>${line.line}</button>`
      : line.line}</span>
    <span role="cell" class="code"><span aria-hidden="true">${SIGNS[line.kind]}</span>${
      visible(line.text)}</span>
  </div>`;
}

/**
 * @param {{team: string, name: string, file: string, line: import("./diff.js").DiffLine,
 *   close: () => void}} props
 */
function Comment({ team, name, file, line, close }) {
  const [text, setText] = useState("");
  const [said, setSaid] = useState("");
  const [key] = useState(() => crypto.randomUUID());
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (text.trim() === "") return;
    try {
      const body = { to: name, content: comment(file, line, text.trim()) };
      await call("POST", ofTeam(team, "messages"), body, { "idempotency-key": key });
      close();
    } catch (failure) {
      setSaid(`Not sent: ${inWords(failure)}`);
    }
  }
  return html`<form class="comment" onSubmit=${submit}>
    <label>Comment for ${visible(name)}
      <textarea rows="2" value=${text} ref=${(/** @type {any} */ it) => it?.focus()}
        onInput=${typed(setText)} /></label>
    <div class="actions"><button class="yes">Send the comment</button>
      <button type="button" class="quiet" onClick=${close}>Cancel</button></div>
    <p class="said" role="status">${said}</p>
  </form>`;
}

/** @param {{team: string, name: string, branch: Branch, read: () => void}} props */
function Merge({ team, name, branch, read }) {
  const [isSure, setIsSure] = useState(false);
  const [said, setSaid] = useState("");
  async function merge() {
    if (!isSure) {
      setIsSure(true);
      return;
    }
    setIsSure(false);
    try {
      await call("POST", ofTeam(team, "members", name, "merge"), { commit: branch.commit });
      setSaid("Merged.");
      read();
    } catch (failure) {
      setSaid(`Not merged: ${inWords(failure)}`);
    }
  }
  return html`<div class="actions merge"><button class="more" onClick=${merge}>
      ${isSure ? "Click again to merge" : "Merge"} <code>${visible(branch.name)}</code> into <code>${
        visible(branch.base)}</code></button>
    <p class="said" role="status">${said}</p></div>`;
}
