// The permission requests that wait for a person. The rules are those of the terminal:
//
// - A call is shown whole, and cannot be allowed before all of it was on the screen.
// - A click counts only for the request that was there. If requests moved just before, the click
//   only says so.
// - An answer carries the digest of the request that was shown, so the host refuses a stale one.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact-htm.js";
import { call, inWords, ofTeam } from "./api.js";
import { useKeptFocus } from "./focus.js";
import { useReading } from "./reading.js";
import { link } from "./route.js";
import { useMay } from "./session.js";
import { typed } from "./signal.js";
import { useSwipe } from "./swipe.js";
import { visible } from "./text.js";
import { asksFor, counted } from "./words.js";

/** An answer that takes longer than this is late, in milliseconds. */
const LATE_MS = 4000;

/** After requests have moved, clicks within this time were meant for another one. */
export const MOVED_MS = 600;

/**
 * The requests, of which one is open. Plans that wait are named after them.
 * @param {{team: string, questions: OpenQuestion[], plans: Plan[]}} props
 */
export function Questions({ team, questions, plans }) {
  const [chosen, setChosen] = useState("");
  const movedAt = useRef(0);
  const shown = questions.find((question) => question.id === chosen) ?? questions[0];
  useLayoutEffect(() => {
    movedAt.current = performance.now();
  }, [shown?.id]);
  const kept = useKeptFocus(shown?.id ?? "");
  if (!shown) return null;
  const others = questions.filter((question) => question !== shown);
  return html`<section class="waiting" aria-label="Permission requests" ...${kept}>
    <${Question} key=${shown.id} team=${team} open=${shown} movedAt=${movedAt} />
    ${others.length + plans.length > 0 &&
    html`<ul class="others" aria-label=${counted(others.length + plans.length, "more request")}>
      ${others.map((other) => html`<li key=${other.id}><button class="quiet"
        onClick=${() => setChosen(other.id)}>${heading(other.question)}</button></li>`)}
      ${plans.map((plan) => html`<li key=${plan.request_id}><a class="button"
        href=${link(team, "plans")}>${visible(plan.member)} asks to approve its plan</a></li>`)}
    </ul>`}
  </section>`;
}

/** @param {PermissionQuestion} question */
export function heading(question) {
  return visible(`${question.asker} ${asksFor(question.tool)}`);
}

/** @param {{team: string, open: OpenQuestion, movedAt: {current: number}}} props */
function Question({ team, open, movedAt }) {
  const { question } = open;
  const { box, isRead, skip } = useReading(open.id + question.digest);
  const mayAnswer = useMay("answer");
  const [said, setSaid] = useState("");
  const [isSent, setIsSent] = useState(false);
  const [opened, setOpened] = useState("");
  const [isRefusing, isOffering] = [opened === "refuse", opened === "always"];
  /** @param {string} part */
  const toggle = (part) => setOpened(opened === part ? "" : part);
  /** @param {KeyboardEvent} event */
  const pressed = (event) => event.key === "Escape" && setOpened("");
  /** @param {unknown} choice */
  async function send(choice) {
    setIsSent(true);
    setSaid("Sending…");
    const late = setTimeout(() => setSaid("Still sending: the server does not answer yet."), LATE_MS);
    try {
      const path = ofTeam(team, "questions", open.id, "answer");
      await call("POST", path, { digest: question.digest, choice });
      setSaid("Answered.");
    } catch (error) {
      setSaid(`Nothing was answered: ${inWords(error)}`);
      setIsSent(false);
    }
    clearTimeout(late);
  }
  /** @param {unknown} choice */
  function allow(choice) {
    if (isSent) return;
    if (performance.now() - movedAt.current < MOVED_MS) {
      setSaid("This request has just appeared: nothing was answered. Click again to answer it.");
    } else if (!isRead) {
      setSaid("A part of this call was not on the screen yet: scroll to its end, or skip it.");
    } else {
      void send(choice);
    }
  }
  const { listeners, swipe } = useSwipe(
    (side) => (side === "right" ? allow("once") : setOpened("refuse")),
  );
  return html`<article class="question" aria-labelledby=${`q-${open.id}`}
    onKeyDown=${pressed} ...${mayAnswer && listeners}>
    ${mayAnswer && swipe && html`<${Release} swipe=${swipe} isRead=${isRead} />`}
    <h2 id=${`q-${open.id}`}><span aria-hidden="true">!</span> ${heading(question)}</h2>
    <p class="note">in <code>${visible(question.folder)}</code>${
      question.reason && html`<br />because ${visible(question.reason)}`}</p>
    <div class="call" ref=${box} tabindex="0" role="region" aria-label="The whole call">
      ${question.lines.map((line, n) => html`<${CallLine} key=${n} line=${line} />`)}
    </div>
    ${mayAnswer && html`${!isRead &&
    html`<p class="unread">Scroll to the end of the call to allow it.
      <button class="quiet" onClick=${skip}>Skip the rest unread</button></p>`}
    <div class="actions">
      <button class="yes" aria-disabled=${!isRead || isSent}
        onClick=${() => allow("once")}>Allow once</button>
      ${question.offers.length > 0 && html`<button aria-expanded=${isOffering}
        onClick=${() => toggle("always")}>Always…</button>`}
      <button class="no" aria-disabled=${isSent} aria-expanded=${isRefusing}
        onClick=${() => toggle("refuse")}>Refuse…</button>
    </div>
    ${isRead && html`<p class="note swipe">Swipe to the right to allow once, to the left to give a
      reason and refuse.</p>`}
    ${isOffering && html`<ul class="offers" aria-label="Answers for later calls too">
      ${question.offers.map((offer, n) => html`<${OfferButtons} key=${n} offer=${offer}
        isOff=${!isRead || isSent} allow=${allow} />`)}</ul>`}
    ${isRefusing && html`<${Refusal} isOff=${isSent} send=${send} />`}`}
    <p class="said" role="status">${said}</p>
  </article>`;
}

/**
 * Says what the release of the finger does.
 * @param {{swipe: import("./swipe.js").Swipe, isRead: boolean}} props
 */
function Release({ swipe: { side, isEnough }, isRead }) {
  const isUnread = side === "right" && !isRead;
  const words = isUnread ? "Not read to its end" : side === "right" ? "Allow once" : "Refuse…";
  return html`<p class=${`release ${side} ${isEnough && !isUnread ? "enough" : ""}`}
    aria-hidden="true">${words}</p>`;
}

const MARKS = { added: "+", removed: "−", note: "", text: " ", mark: "" };

/** @param {{line: QuestionLine}} props */
function CallLine({ line }) {
  const mark = MARKS[line.kind] ?? " ";
  const word = { added: "added: ", removed: "removed: " }[/** @type {string} */ (line.kind)];
  return html`<div class=${`line ${visible(line.kind)}`}><span class="mark"
    aria-hidden="true">${mark}</span>${word && html`<span class="hidden">${word}</span>`}<span
    class="code">${visible(line.text)}</span></div>`;
}

/** @param {{offer: Offer, isOff: boolean, allow: (choice: unknown) => void}} props */
function OfferButtons({ offer, isOff, allow }) {
  const { rule, words } = offered(offer);
  const maySave = useMay("everything") && rule;
  /** @param {string} keep */
  const always = (keep) => allow({ always: { offer, keep } });
  return html`<li>
    <span>${words}${rule && html` <code>${visible(rule)}</code>`}</span>
    <button aria-disabled=${isOff} onClick=${() => always("run")}>In this run</button>
    ${maySave && html`<button aria-disabled=${isOff}
      onClick=${() => always("saved")}>Save in my settings</button>`}
  </li>`;
}

/**
 * @param {Offer} offer
 * @returns {{rule: string | null, words: string}}
 */
export function offered(offer) {
  if (offer === "edits") return { rule: null, words: "All edits in its folder" };
  if ("rule" in offer) return { rule: offer.rule, words: "Every call by the rule" };
  return { rule: offer.exactly.rule, words: "Exactly this call" };
}

/** @param {{isOff: boolean, send: (choice: unknown) => void}} props */
function Refusal({ isOff, send }) {
  const [reason, setReason] = useState("");
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => input.current?.focus(), []);
  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    if (!isOff) send({ no: { reason: reason.trim() || null } });
  }
  return html`<form class="refusal" onSubmit=${submit}>
    <label>Reason for the agent (may be empty)
      <input ref=${input} value=${reason} maxlength="2000"
        onInput=${typed(setReason)} /></label>
    <button class="no" aria-disabled=${isOff}>Refuse the call</button>
  </form>`;
}
