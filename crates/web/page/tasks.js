// The tasks of a team as a graph: layers from left to right, or from top to bottom on a narrow
// screen. The list of nodes is in the order of the layers, so it reads well without the picture.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { layOut } from "./graph.js";
import { observed } from "./list.js";
import { link } from "./route.js";
import { visible } from "./text.js";

const NODE = { width: 190, height: 74 };
const GAP = { along: 44, across: 18 };
const EDGE = 14;
/** On a screen narrower than this the layers go from top to bottom, in pixels. */
const NARROW = 640;

const STATES = {
  pending: { mark: "○", words: "pending" },
  in_progress: { mark: "●", words: "in progress" },
  completed: { mark: "✓", words: "completed" },
};

/** @param {{store: import("./store.js").TeamStore, chosen: string}} props */
export function Tasks({ store, chosen }) {
  const { tasks } = store.host.value;
  const done = tasks.filter((task) => task.status === "completed").length;
  const task = tasks.find((task) => task.id === chosen);
  return html`<div class="page">
    <h1>Tasks <small>${done} of ${tasks.length} completed</small></h1>
    ${tasks.length === 0
      ? html`<p class="empty">The team has no tasks.</p>`
      : html`<${Graph} team=${store.name} tasks=${tasks} chosen=${chosen} />`}
    ${task && html`<${Details} team=${store.name} task=${task} />`}
  </div>`;
}

/** @param {{team: string, tasks: Task[], chosen: string}} props */
function Graph({ team, tasks, chosen }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [isNarrow, setIsNarrow] = useState(innerWidth < NARROW);
  useEffect(
    () => observed(box.current, () => setIsNarrow((box.current?.clientWidth ?? NARROW) < NARROW)),
    [],
  );
  const layout = useMemo(() => layOut(tasks), [tasks]);
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const spots = new Map(layout.placed.map((it) => [it.id, spot(it, isNarrow)]));
  const size = sizeOf(layout, isNarrow);
  return html`<div class="graph" ref=${box} tabindex="0" role="region" aria-label="Task graph">
    <div class="plane" style=${{ width: `${size.width}px`, height: `${size.height}px` }}>
      <svg width=${size.width} height=${size.height} aria-hidden="true">
        ${layout.edges.map((edge) => html`<${Arrow} key=${`${edge.from} ${edge.to}`}
          edge=${edge} spots=${spots} isNarrow=${isNarrow}
          isDone=${byId.get(edge.from)?.status === "completed"} />`)}
      </svg>
      <ul aria-label="Tasks">${layout.placed.map(({ id }) => html`<${Node} key=${id} team=${team}
        task=${byId.get(id)} at=${spots.get(id)} isChosen=${id === chosen} />`)}</ul>
    </div>
  </div>`;
}

/**
 * @param {import("./graph.js").Placed} placed
 * @param {boolean} isNarrow
 */
function spot({ layer, place }, isNarrow) {
  if (isNarrow) {
    return {
      x: EDGE + place * (NODE.width + GAP.across),
      y: EDGE + layer * (NODE.height + GAP.along),
    };
  }
  return {
    x: EDGE + layer * (NODE.width + GAP.along),
    y: EDGE + place * (NODE.height + GAP.across),
  };
}

/**
 * @param {{layers: number, most: number}} layout
 * @param {boolean} isNarrow
 */
function sizeOf({ layers, most }, isNarrow) {
  const last = spot({ id: "", layer: layers - 1, place: 0 }, isNarrow);
  const widest = spot({ id: "", layer: 0, place: most - 1 }, isNarrow);
  return {
    width: Math.max(last.x, widest.x) + NODE.width + EDGE,
    height: Math.max(last.y, widest.y) + NODE.height + EDGE,
  };
}

/**
 * @param {{edge: import("./graph.js").Edge, spots: Map<string, {x: number, y: number}>,
 *   isNarrow: boolean, isDone: boolean}} props
 */
function Arrow({ edge, spots, isNarrow, isDone }) {
  const [from, to] = [spots.get(edge.from), spots.get(edge.to)];
  if (!from || !to) return null;
  const path = isNarrow ? downward(from, to) : rightward(from, to);
  return html`<g class=${isDone ? "edge done" : "edge"} data-edge=${`${edge.from}-${edge.to}`}>
    <path d=${path.line} /><path class="head" d=${path.head} /></g>`;
}

/** @param {{x: number, y: number}} from @param {{x: number, y: number}} to */
function rightward(from, to) {
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x - 2, to.y + NODE.height / 2];
  const bend = Math.max(18, (x2 - x1) / 2);
  return {
    line: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2 - 5} ${y2}`,
    head: `M${x2} ${y2}l-7 -4v8z`,
  };
}

/** @param {{x: number, y: number}} from @param {{x: number, y: number}} to */
function downward(from, to) {
  const [x1, y1] = [from.x + NODE.width / 2, from.y + NODE.height];
  const [x2, y2] = [to.x + NODE.width / 2, to.y - 2];
  const bend = Math.max(18, (y2 - y1) / 2);
  return {
    line: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2 - 5}`,
    head: `M${x2} ${y2}l-4 -7h8z`,
  };
}

/** @param {{team: string, task: Task, at: {x: number, y: number}, isChosen: boolean}} props */
function Node({ team, task, at, isChosen }) {
  const state = STATES[task.status] ?? { mark: "?", words: String(task.status) };
  const blockers = (task.blockedBy ?? []).map((id) => `#${visible(id)}`).join(", ");
  return html`<li class=${`node ${visible(task.status)}`} style=${{
    left: `${at.x}px`,
    top: `${at.y}px`,
    width: `${NODE.width}px`,
    height: `${NODE.height}px`,
  }}><a href=${link(team, "tasks", task.id)} aria-current=${isChosen ? "true" : undefined}>
      <span class="subject"><b>#${visible(task.id)}</b> ${visible(task.subject)}</span>
      <span class="note"><span aria-hidden="true">${state.mark}</span> ${visible(state.words)}${
        task.owner && ` · ${visible(task.owner)}`}</span>
      ${blockers && html`<span class="hidden">blocked by ${blockers}</span>`}
    </a></li>`;
}

/** @param {{team: string, task: Task}} props */
function Details({ team, task }) {
  /** @param {string[] | undefined} ids */
  const links = (ids) => (ids ?? []).map((id) => html` <a href=${link(team, "tasks", id)}>#${
    visible(id)}</a>`);
  return html`<section class="details" aria-label=${`Task ${visible(task.id)}`}>
    <h2 class="plain">#${visible(task.id)} ${visible(task.subject)}</h2>
    <p class="note">${visible(STATES[task.status]?.words ?? task.status)} ·
      ${task.owner
        ? html` <a href=${link(team, "member", task.owner)}>${visible(task.owner)}</a>`
        : " nobody"}</p>
    <pre class="text">${visible(task.description)}</pre>
    ${task.blockedBy?.length > 0 && html`<p>Blocked by ${links(task.blockedBy)}</p>`}
    ${task.blocks?.length > 0 && html`<p>Blocks ${links(task.blocks)}</p>`}
  </section>`;
}
