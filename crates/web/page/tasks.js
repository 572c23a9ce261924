// The tasks of a team as a graph: layers from left to right, or from top to bottom on a narrow
// screen. The list of nodes is in the order of the layers, so it reads well without the picture.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact-htm.js";
import { LANE, layOut } from "./graph.js";
import { observed } from "./list.js";
import { link } from "./route.js";
import { use } from "./signal.js";
import { visible } from "./text.js";

/** The size of a task. On a narrow screen two tasks fit side by side. */
const WIDE_NODE = { width: 190, height: 74 };
const NARROW_NODE = { width: 148, height: 88 };
const GAP = { along: 44, across: 18 };
const EDGE = 14;
/** On a screen narrower than this the layers go from top to bottom, in pixels. */
const NARROW = 640;

/** @param {boolean} isNarrow */
const nodeOf = (isNarrow) => (isNarrow ? NARROW_NODE : WIDE_NODE);

const STATES = {
  pending: { mark: "○", words: "pending" },
  in_progress: { mark: "●", words: "in progress" },
  completed: { mark: "✓", words: "completed" },
};

/** @param {{store: Store, chosen: string}} props */
export function Tasks({ store, chosen }) {
  const { tasks } = use(store.host);
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
  const isDone = (/** @type {{from: string}} */ way) => byId.get(way.from)?.status === "completed";
  // Where two share a way, the open one is seen.
  const ways = [...layout.ways].sort((a, b) => Number(isDone(b)) - Number(isDone(a)));
  return html`<div class="graph" ref=${box} tabindex="0" role="region" aria-label="Task graph">
    <div class="plane" style=${{ width: `${size.width}px`, height: `${size.height}px` }}>
      <svg width=${size.width} height=${size.height} aria-hidden="true">
        ${ways.map((way) => html`<${Arrow} key=${`${way.from} ${way.to}`}
          way=${way} spots=${spots} isNarrow=${isNarrow}
          isDone=${isDone(way)} />`)}
      </svg>
      <ul aria-label="Tasks">${layout.placed.map(
        ({ id, isLane }) => !isLane && html`<${Node} key=${id} team=${team} task=${byId.get(id)}
          at=${spots.get(id)} size=${nodeOf(isNarrow)} isChosen=${id === chosen} />`)}</ul>
    </div>
  </div>`;
}

/**
 * Returns the centre of a task or a lane.
 * @param {import("./graph.js").Placed} placed
 * @param {boolean} isNarrow
 * @returns {Spot}
 */
function spot({ layer, place, isLane }, isNarrow) {
  const middle = place + (isLane ? LANE : 1) / 2;
  const { width, height } = nodeOf(isNarrow);
  const across = EDGE - GAP.across / 2 + middle * ((isNarrow ? width : height) + GAP.across);
  const deep = isNarrow ? height : width;
  const along = EDGE + layer * (deep + GAP.along) + deep / 2;
  return isNarrow ? { x: across, y: along } : { x: along, y: across };
}

/**
 * @param {{layers: number, most: number}} layout
 * @param {boolean} isNarrow
 */
function sizeOf({ layers, most }, isNarrow) {
  const { width, height } = nodeOf(isNarrow);
  const [deep, wide] = isNarrow ? [height, width] : [width, height];
  const along = 2 * EDGE + layers * (deep + GAP.along) - GAP.along;
  const across = 2 * EDGE + most * (wide + GAP.across) - GAP.across;
  return isNarrow ? { width: across, height: along } : { width: along, height: across };
}

/** @typedef {{x: number, y: number}} Spot */

/**
 * @param {{way: import("./graph.js").Way, spots: Map<string, Spot>, isNarrow: boolean,
 *   isDone: boolean}} props
 */
function Arrow({ way, spots, isNarrow, isDone }) {
  const stops = [way.from, ...way.by, way.to].flatMap((id) => spots.get(id) ?? []);
  // A point at the side of the layers in which a line comes in, and one where it goes out.
  const { width, height } = nodeOf(isNarrow);
  const half = (isNarrow ? height : width) / 2;
  const sides = stops.flatMap((spot) => [moved(spot, -half, isNarrow), moved(spot, half, isNarrow)]);
  const [first, ...rest] = sides.slice(1, -1);
  if (!first) return null;
  let line = `M${first.x} ${first.y}`;
  let before = first;
  rest.forEach((next, n) => {
    line += n % 2 === 0 ? curve(before, next, isNarrow) : `L${next.x} ${next.y}`;
    before = next;
  });
  const head = isNarrow ? "l-4 -8h8z" : "l-8 -4v8z";
  return html`<g class=${isDone ? "edge done" : "edge"} data-edge=${`${way.from}-${way.to}`}>
    <path d=${line} /><path class="head" d=${`M${before.x} ${before.y}${head}`} /></g>`;
}

/** @param {Spot} spot @param {number} by @param {boolean} isNarrow */
function moved({ x, y }, by, isNarrow) {
  return isNarrow ? { x, y: y + by } : { x: x + by, y };
}

/** @param {Spot} from @param {Spot} to @param {boolean} isNarrow */
function curve(from, to, isNarrow) {
  const bend = GAP.along / 2;
  const [a, b] = [moved(from, bend, isNarrow), moved(to, -bend, isNarrow)];
  return `C${a.x} ${a.y} ${b.x} ${b.y} ${to.x} ${to.y}`;
}

/**
 * @param {{team: string, task: Task, at: Spot, size: typeof WIDE_NODE, isChosen: boolean}} props
 */
function Node({ team, task, at, size, isChosen }) {
  const state = STATES[task.status] ?? { mark: "?", words: String(task.status) };
  const blockers = (task.blockedBy ?? []).map((id) => `#${visible(id)}`).join(", ");
  return html`<li class=${`node ${visible(task.status)}`} style=${{
    left: `${at.x - size.width / 2}px`,
    top: `${at.y - size.height / 2}px`,
    width: `${size.width}px`,
    height: `${size.height}px`,
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
    <h2>#${visible(task.id)} ${visible(task.subject)}</h2>
    <p class="note">${visible(STATES[task.status]?.words ?? task.status)} ·
      ${task.owner
        ? html` <a href=${link(team, "member", task.owner)}>${visible(task.owner)}</a>`
        : " nobody"}</p>
    <pre class="text">${visible(task.description)}</pre>
    ${task.blockedBy?.length > 0 && html`<p>Blocked by ${links(task.blockedBy)}</p>`}
    ${task.blocks?.length > 0 && html`<p>Blocks ${links(task.blocks)}</p>`}
  </section>`;
}
