// The review of what each member has changed: diffs, comments on lines that become messages to the
// author, and the merge of a branch.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { RequestKey, call, get, inWords, ofTeam } from "./api.js";
import { comment, linesOf, notCommitted } from "./diff.js";
import { useLooks } from "./look.js";
import { news } from "./notify.js";
import { link } from "./route.js";
import { useMay } from "./session.js";
import { typed, use } from "./signal.js";
import { visible } from "./text.js";
import { counted } from "./words.js";

/** The number of lines of a diff that are shown at once. */
const LINES_MOST = 1_000;

/**
 * The comments that were sent from this page, by team, member, file and line.
 * @type {Map<string, string[]>}
 */
const sent = new Map();

/**
 * The comments that are written and not sent, by the same places. They stay with their lines while
 * the changes change, and while another view is shown.
 * @type {Map<string, string>}
 */
const drafts = new Map();

/** @param {{store: LiveStore, chosen: string}} props */
export function Review({ store, chosen }) {
  const agents = use(store.host).team.agents.filter((agent) => agent.role !== "subagent");
  const [counts, setCounts] = useState(/** @type {Map<string, number> | null} */ (null));
  const [first, setFirst] = useState("");
  // Nobody reads the mail of an archived team.
  const isOver = use(store.isArchived);
  /** @param {string} name */
  const named = (name) => agents.find((agent) => agent.name === name);
  const shown = named(chosen) ?? named(first) ?? agents[0];
  /** @param {MemberChanges} changes */
  function know({ counts = [] }) {
    const known = new Map(counts.map(({ member, files }) => [member, files]));
    setCounts(known);
    if (first === "") setFirst(agents.find(({ name }) => known.get(name))?.name ?? "");
  }
  return html`<div class="page">
    <h1>Review</h1>
    <nav class="pills" aria-label="Members">${agents.map((agent) => html`<a key=${agent.name}
      href=${link(store.name, "review", agent.name)}
      aria-current=${agent === shown ? "page" : undefined}>${visible(agent.name)}${
        counts && html` <span class="note" title=${counted(counts.get(agent.name) ?? 0, "changed file")}
          >${counts.get(agent.name) ?? 0}</span>`}</a>`)}</nav>
    ${shown && html`<${Changes} key=${shown.name} team=${store.id} name=${shown.name}
      know=${know} version=${shown.status} isOver=${isOver} />`}
  </div>`;
}

/**
 * The changes of a member. `version` is another one when the member may have changed more.
 * @param {{team: string, name: string, version: string, isOver: boolean,
 *   know: (changes: MemberChanges) => void}} props
 */
function Changes({ team, name, version, isOver, know }) {
  const [changes, setChanges] = useState(/** @type {MemberChanges | null} */ (null));
  // Newer changes. They are shown when the person asks: lines must not move under a comment or click.
  const [newer, setNewer] = useState(/** @type {MemberChanges | null} */ (null));
  const [refusal, setRefusal] = useState("");
  const [error, setError] = useState("");
  /** @param {MemberChanges} changes */
  function show(changes) {
    if (newer) setRefusal("");
    setChanges(changes);
    setNewer(null);
  }
  /** @param {string} why */
  function refused(why) {
    setRefusal(`Not merged: ${why}.`);
    // The branch can have been merged in a terminal meanwhile.
    void read(false);
  }
  /** @param {boolean} isAsked */
  async function read(isAsked) {
    if (isAsked) setRefusal("");
    try {
      const now = await get(ofTeam(team, "members", name, "changes"));
      know(now);
      const isSame = changes !== null && essence(changes) === essence(now);
      if (changes === null || isAsked || isSame) show(now);
      else setNewer(now);
      setError("");
    } catch (failure) {
      setError(inWords(failure));
    }
  }
  useEffect(() => void read(false), [version]);
  // Nothing tells of a commit or a merge in a terminal.
  useLooks(true, () => read(false));
  const [mayComment, mayMerge] = [useMay("answer") && !isOver, useMay("everything") && !isOver];
  if (error) return html`<p class="error" role="alert">${error}</p>`;
  if (!changes) return html`<p class="loading">Loading…</p>`;
  if (changes.folder === undefined) {
    return html`<p class="note">${visible(name)} has left the team, so its files are not known here.</p>`;
  }
  const { branch, files, problem, left_out } = changes;
  const isDone = branch && !newer && !problem && files.length === 0 && !branch.ahead;
  return html`<div class="changes">
    <p class="note">${counted(files.length, "changed file")}${
      branch && html` on branch <code>${visible(branch.name)}</code>, ${
        counted(branch.ahead ?? 0, "commit")} ahead of <code>${visible(branch.base)}</code>${
        (branch.behind ?? 0) > 0 && `, ${branch.behind} behind`}${
        notCommitted(branch.uncommitted)}`}${
      " "}<button class="quiet" onClick=${() => read(true)}>Refresh</button></p>
    <p class="said" role="status">${refusal}${newer && html`${" "}There are other changes now. <button class="quiet"
      onClick=${() => show(newer)}>Show them</button>`}</p>
    ${mayMerge && !newer && branch && (branch.ahead ?? 0) > 0 && html`<${Merge} team=${team}
      name=${name} branch=${branch} merged=${() => read(true)} refused=${refused} />`}
    ${isDone && html`<p class="note">Nothing is left to merge: everything of ${visible(name)} is in
      ${" "}<code>${visible(branch.base)}</code>, or ${visible(name)} changed nothing.</p>`}
    ${problem && html`<p class="error">${visible(problem)}</p>`}
    ${!branch && html`<p class="note">${visible(name)} has no worktree, so these are the files that
      its file tools wrote. A file that only a command changed is not here.</p>`}
    ${mayComment && files.length > 0 && html`<p class="note">A click on the number of a line opens a
      comment for ${visible(name)}.</p>`}
    ${files.map((file) => html`<${File} key=${file.path} team=${team} name=${name} file=${file}
      mayComment=${mayComment} />`)}
    ${(left_out ?? 0) > 0 && html`<p class="note">${counted(left_out ?? 0, "more file")} changed.</p>`}
  </div>`;
}

/**
 * Returns what a person sees of changes.
 * @param {MemberChanges} changes
 */
function essence({ branch, files, problem, left_out }) {
  return JSON.stringify([branch, files, problem, left_out]);
}

/** @param {{team: string, name: string, file: ChangedFile, mayComment: boolean}} props */
function File({ team, name, file, mayComment }) {
  const [isWhole, setIsWhole] = useState(false);
  const lines = useMemo(() => linesOf(file.diff ?? ""), [file.diff]);
  const shown = isWhole ? lines : lines.slice(0, LINES_MOST);
  const path = visible(file.path);
  /** @param {import("./diff.js").DiffLine} line */
  const place = (line) => JSON.stringify([team, name, file.path, line]);
  const [open, setOpen] = useState(() => lines.map(place).find((it) => drafts.has(it)) ?? "");
  // The line of the open comment is not among the changes any more.
  const isLost = open !== "" && !lines.some((line) => place(line) === open);
  /** @param {string} at */
  function close(at) {
    drafts.delete(at);
    setOpen("");
  }
  /** @param {import("./diff.js").DiffLine} line @param {string} text */
  function keep(line, text) {
    sent.set(place(line), [...(sent.get(place(line)) ?? []), text]);
    news.value = `The comment was sent to ${visible(name)}.`;
    close(place(line));
  }
  return html`<details class="file" open>
    <summary><code>${path}</code>${" "}<span class="plus">+${counts(lines, "added")}</span>${" "}<span
      class="minus">−${counts(lines, "removed")}</span></summary>
    ${isLost && html`<p class="error">The line of your comment has changed. You wrote:${" "}<q>${
      visible(drafts.get(open) ?? "")}</q>${" "}<button class="quiet"
      onClick=${() => close(open)}>Put away</button></p>`}
    ${file.not_shown && html`<p class="note">${visible(file.not_shown)}</p>`}
    <div class="diff" role="table" aria-label=${`Diff of ${path}`}>
      ${shown.map((line, n) => html`<${Line} key=${n} line=${line}
        isOpen=${place(line) === open} mayComment=${mayComment}
        toggle=${() => setOpen(place(line) === open ? "" : place(line))} />
        ${sent.get(place(line))?.map((text) => html`<div role="row"><div role="cell" class="sent"><span
          class="note">sent to ${visible(name)}:</span> ${visible(text)}</div></div>`)}
        ${place(line) === open && mayComment && html`<div role="row" key=${open}><div role="cell"><${Comment}
          team=${team} name=${name} file=${file.path} line=${line} place=${open}
          close=${() => close(open)} keep=${(/** @type {string} */ text) => keep(line, text)} /></div></div>`}`)}
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
      ? html`<button aria-label=${label} title="Comment on this line" aria-expanded=${isOpen}
          onClick=${toggle}>${line.line}</button>`
      : line.line}</span>
    <span role="cell" class="code"><span aria-hidden="true">${SIGNS[line.kind]}</span>${
      visible(line.text)}</span>
  </div>`;
}

/**
 * @param {{team: string, name: string, file: string, line: import("./diff.js").DiffLine,
 *   place: string, close: () => void, keep: (text: string) => void}} props
 */
function Comment({ team, name, file, line, place, close, keep }) {
  const [text, setText] = useState(drafts.get(place) ?? "");
  /** @param {string} text */
  function write(text) {
    drafts.set(place, text);
    setText(text);
  }
  /** @param {KeyboardEvent} event */
  function pressed(event) {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
  }
  const [said, setSaid] = useState("");
  const key = useMemo(() => new RequestKey(), []);
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => box.current?.focus(), []);
  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (text.trim() === "") return;
    try {
      const body = { to: name, content: comment(file, line, text.trim()) };
      await call("POST", ofTeam(team, "messages"), body, key.of(body));
      keep(text.trim());
    } catch (failure) {
      setSaid(`Not sent: ${inWords(failure)}`);
    }
  }
  return html`<form class="comment" onSubmit=${submit} onKeyDown=${pressed}>
    <label>Comment for ${visible(name)}
      <textarea rows="2" value=${text} ref=${box} onInput=${typed(write)} /></label>
    <div class="actions"><button class="yes">Send the comment</button>
      <button type="button" class="quiet" onClick=${close}>Cancel</button></div>
    <p class="said" role="status">${said}</p>
  </form>`;
}

/**
 * @param {{team: string, name: string, branch: Branch, merged: () => void,
 *   refused: (why: string) => void}} props
 */
function Merge({ team, name, branch, merged, refused }) {
  // The commit that was shown at the first click. Another one needs two clicks of its own.
  const [sure, setSure] = useState("");
  const isSure = sure === branch.commit;
  async function merge() {
    if (!isSure) {
      setSure(branch.commit ?? "");
      return;
    }
    setSure("");
    try {
      await call("POST", ofTeam(team, "members", name, "merge"), { commit: branch.commit });
      // The button goes when nothing is left to merge.
      news.value = `${branch.name} was merged into ${branch.base}.`;
      merged();
    } catch (failure) {
      refused(inWords(failure));
    }
  }
  return html`<div class="actions merge"><button class="more" onClick=${merge}>
      ${isSure ? "Click again to merge" : "Merge"} <code>${visible(branch.name)}</code> into <code>${
        visible(branch.base)}</code></button></div>`;
}
