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

/** @param {{store: LiveStore}} props */
export function OpenPlans({ store }) {
  const open = use(store.plans).filter((plan) => plan.state === "open");
  const movedAt = useRef(0);
  useLayoutEffect(() => {
    movedAt.current = performance.now();
  }, [open.map((plan) => plan.request_id).join()]);
  const kept = useKeptFocus(open.map((plan) => plan.request_id).join());
  return html`<div ...${kept}>${open.map((plan) => html`<${Plan} key=${plan.request_id} plan=${plan}
    store=${store} movedAt=${movedAt} />`)}</div>`;
}

/** @param {{plan: Plan, store: LiveStore, movedAt: {current: number}}} props */
function Plan({ plan, store, movedAt }) {
  const { box, isRead, skip } = useReading(`${plan.request_id} ${plan.plan ?? ""}`);
  const noRun = useNoRun(store);
  const mayAnswer = useMay("answer") && !noRun;
  const [remarks, setRemarks] = useState("");
  const [said, setSaid] = useState("");
  const [isSent, setIsSent] = useState(false);
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
      return;
    }
    setIsSent(true);
    try {
      const body = { member: plan.member, approve, ...(feedback && { feedback }) };
      await call("POST", ofTeam(store.name, "plans", plan.request_id), body);
      setSaid(approve ? "Approved." : "Sent back.");
      store.settle();
    } catch (error) {
      setSaid(`Nothing was answered: ${inWords(error)}`);
      setIsSent(false);
    }
  }
  const id = `plan-${plan.request_id}`;
  return html`<article class="question plan" aria-labelledby=${id}>
    <h2 id=${id}><span aria-hidden="true">!</span> ${visible(plan.member)} asks to approve its plan</h2>
    <pre class="call text" ref=${box} tabindex="0" role="region"
      aria-label="The whole plan">${visible(plan.plan ?? "The text of this plan is gone.")}</pre>
    ${mayAnswer && html`${!isRead &&
    html`<p class="unread">Scroll to the end of the plan to approve it.
      <button class="quiet" onClick=${skip}>Skip the rest unread</button></p>`}
    <label class="remarks">Remarks for ${visible(plan.member)}
      <textarea rows="2" value=${remarks} maxlength="20000"
        onInput=${typed(setRemarks)} /></label>
    <div class="actions">
      <button class="yes" aria-disabled=${!isRead || isSent}
        onClick=${() => answer(true)}>Approve</button>
      <button class="no" aria-disabled=${isSent}
        onClick=${() => answer(false)}>Send back with remarks</button>
    </div>`}
    <p class="said" role="status">${said || noRun}</p>
  </article>`;
}
