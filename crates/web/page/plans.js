// The plans of teammates: read, approved, or sent back with remarks. A plan can be approved only
// after all of it was on the screen, or after the rest was skipped. If plans moved just before, a
// click approves none of them.

import { html, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { call, inWords, ofTeam } from "./api.js";
import { useKeptFocus } from "./focus.js";
import { MOVED_MS } from "./questions.js";
import { useReading } from "./reading.js";
import { useNoRun } from "./run.js";
import { useMay } from "./session.js";
import { typed, use } from "./signal.js";
import { visible } from "./text.js";

/** @type {Record<string, string>} */
const ANSWERS = { approved: "approved", rejected: "sent back", void: "needs no answer any more" };

/** @param {{store: LiveStore}} props */
export function Plans({ store }) {
  const plans = use(store.plans);
  const open = plans.filter((plan) => plan.state === "open");
  const others = plans.filter((plan) => plan.state !== "open").reverse();
  return html`<div class="page">
    <h1>Plans</h1>
    ${open.length === 0 && html`<p class="empty">No plan waits for an answer.</p>`}
    <${OpenPlans} store=${store} />
    ${others.length > 0 && html`<h2 class="plain">Answered</h2>`}
    ${others.map((plan) => html`<details class="answered" key=${plan.request_id}>
      <summary>${visible(plan.member)} · ${
        ANSWERS[plan.state] ?? visible(plan.state)}</summary>
      <pre class="text">${visible(plan.plan ?? "The text of this plan is gone.")}</pre>
      ${plan.feedback && html`<p class="note">Remarks: ${visible(plan.feedback)}</p>`}
    </details>`)}
  </div>`;
}

/**
 * The remarks that are written and not sent, by team and plan. They stay while another view is shown.
 * @type {Map<string, {member: string, text: string}>}
 */
const drafts = new Map();

/** @param {LiveStore} store @param {Plan} plan */
const keyOf = (store, plan) => `${store.name} ${plan.request_id}`;

/** @param {{store: LiveStore}} props */
export function OpenPlans({ store }) {
  const all = use(store.plans);
  const open = all.filter((plan) => plan.state === "open");
  const movedAt = useRef(0);
  useLayoutEffect(() => {
    movedAt.current = performance.now();
  }, [open.map((plan) => plan.request_id).join()]);
  const kept = useKeptFocus(open.map((plan) => plan.request_id).join());
  return html`<div ...${kept}>${open.map((plan) => html`<${Plan} key=${plan.request_id} plan=${plan}
    earlier=${before(all, plan)} store=${store} movedAt=${movedAt} />`)}
    <${Unsent} team=${store.name} open=${open.map((plan) => keyOf(store, plan))} /></div>`;
}

/**
 * Returns the plan of the same member that was answered last.
 * @param {Plan[]} all
 * @param {Plan} plan
 */
function before(all, plan) {
  const earlier = all.slice(0, all.indexOf(plan));
  return earlier.findLast((it) => it.member === plan.member && it.state !== "open");
}

/**
 * The remarks on plans that were answered elsewhere meanwhile.
 * @param {{team: string, open: string[]}} props
 */
function Unsent({ team, open }) {
  const [, draw] = useState({});
  const lost = [...drafts].filter(([key]) => key.startsWith(`${team} `) && !open.includes(key));
  /** @param {string} key */
  function putAway(key) {
    drafts.delete(key);
    draw({});
  }
  return lost.map(([key, { member, text }]) => html`<section class="answered" key=${key}
    aria-label=${`Remarks for ${visible(member)} that were not sent`}>
    <p>The plan of ${visible(member)} was answered elsewhere, or needs no answer any more. Your remarks
      were not sent: <button class="quiet" onClick=${() => putAway(key)}>Put away</button></p>
    <pre class="text">${visible(text)}</pre></section>`);
}

/**
 * @param {{plan: Plan, earlier?: Plan, store: LiveStore, movedAt: {current: number}}} props
 */
function Plan({ plan, earlier, store, movedAt }) {
  const { box, isRead, skip } = useReading(`${plan.request_id} ${plan.plan ?? ""}`);
  const noRun = useNoRun(store);
  const mayAnswer = useMay("answer") && !noRun;
  const key = keyOf(store, plan);
  const [remarks, setRemarks] = useState(drafts.get(key)?.text ?? "");
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const [said, setSaid] = useState("");
  const [isSent, setIsSent] = useState(false);
  /** @param {string} text */
  function write(text) {
    setRemarks(text);
    if (text.trim() === "") drafts.delete(key);
    else drafts.set(key, { member: plan.member, text });
  }
  /** @param {boolean} approve */
  async function answer(approve) {
    const feedback = remarks.trim();
    if (isSent) return;
    if (approve && performance.now() - movedAt.current < MOVED_MS) {
      setSaid("This plan has just appeared: nothing was approved. Click again to approve it.");
      return;
    }
    if (approve && !isRead) {
      setSaid("A part of this plan was not on the screen yet: scroll to its end, or skip it.");
      return;
    }
    if (!approve && feedback === "") {
      setSaid("Write what must change: the teammate reads it.");
      field.current?.focus();
      return;
    }
    setIsSent(true);
    drafts.delete(key);
    try {
      const body = { member: plan.member, approve, ...(feedback && { feedback }) };
      await call("POST", ofTeam(store.name, "plans", plan.request_id), body);
      setSaid(approve ? "Approved." : "Sent back.");
      store.settle();
    } catch (error) {
      setSaid(`Nothing was answered: ${inWords(error)}`);
      setIsSent(false);
      write(remarks);
      store.settle();
    }
  }
  const id = `plan-${plan.request_id}`;
  return html`<article class="question plan" aria-labelledby=${id}>
    <h2 id=${id}><span aria-hidden="true">!</span> ${visible(plan.member)} asks to approve its plan${
      earlier && " again"}</h2>
    ${earlier?.feedback && html`<p class="note">The remarks on the version before:${" "}<q>${
      visible(earlier.feedback)}</q></p>`}
    <pre class="call text" ref=${box} tabindex="0" role="region"
      aria-label="The whole plan">${visible(plan.plan ?? "The text of this plan is gone.")}</pre>
    ${mayAnswer && html`${!isRead &&
    html`<p class="unread">Scroll to the end of the plan to approve it.
      <button class="quiet" onClick=${skip}>Skip the rest unread</button></p>`}
    <label class="remarks">Remarks for ${visible(plan.member)}
      <textarea rows="2" value=${remarks} maxlength="20000" ref=${field}
        onInput=${typed(write)} /></label>
    <div class="actions">
      <button class="yes" aria-disabled=${!isRead || isSent}
        onClick=${() => answer(true)}>Approve</button>
      <button class="no" aria-disabled=${isSent}
        onClick=${() => answer(false)}>Send back with remarks</button>
    </div>`}
    <p class="said" role="status">${said || noRun}</p>
  </article>`;
}
