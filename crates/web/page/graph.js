// The layout of a graph of tasks in layers: each task is in a later layer than all tasks that block
// it. The functions are pure.

/** @typedef {{id: string, layer: number, place: number, isLane: boolean}} Placed */
/** @typedef {{from: string, to: string}} Edge */
/** @typedef {Edge & {by: string[]}} Way */

/** The height of a lane, as a part of the height of a task. */
export const LANE = 0.25;

/** The number of passes that reorder the layers. More passes change little. */
const PASSES = 6;

/**
 * Returns the dependencies between tasks that exist.
 * @param {Task[]} tasks
 * @returns {Edge[]}
 */
export function edgesOf(tasks) {
  const ids = new Set(tasks.map((task) => task.id));
  const seen = new Set();
  /** @type {Edge[]} */
  const edges = [];
  /** @param {string} from @param {string} to */
  const push = (from, to) => {
    const key = `${from} ${to}`;
    if (from === to || !ids.has(from) || !ids.has(to) || seen.has(key)) return;
    seen.add(key);
    edges.push({ from, to });
  };
  for (const task of tasks) {
    for (const blocker of task.blockedBy ?? []) push(blocker, task.id);
    for (const blocked of task.blocks ?? []) push(task.id, blocked);
  }
  return edges;
}

/**
 * Returns the layer of each task: the length of the longest way to it. Another program can write
 * dependencies in a circle; the edge that closes a circle does not count.
 * @param {string[]} ids
 * @param {Edge[]} edges
 * @returns {Map<string, number>}
 */
export function layersOf(ids, edges) {
  /** @type {Map<string, string[]>} */
  const blockers = new Map(ids.map((id) => [id, []]));
  for (const { from, to } of edges) blockers.get(to)?.push(from);
  /** @type {Map<string, number>} */
  const layers = new Map();
  for (const id of ids) place(id, blockers, layers);
  return layers;
}

/**
 * Computes the layers of a task and of all its blockers, without recursion: a chain can be long.
 * @param {string} start
 * @param {Map<string, string[]>} blockers
 * @param {Map<string, number>} layers
 */
function place(start, blockers, layers) {
  const stack = [{ id: start, next: 0 }];
  const open = new Set([start]);
  if (layers.has(start)) return;
  for (let top = stack.at(-1); top; top = stack.at(-1)) {
    const before = blockers.get(top.id) ?? [];
    const blocker = before[top.next];
    top.next += 1;
    if (blocker !== undefined) {
      if (layers.has(blocker) || open.has(blocker)) continue;
      open.add(blocker);
      stack.push({ id: blocker, next: 0 });
      continue;
    }
    const known = before.flatMap((id) => layers.get(id) ?? []);
    layers.set(top.id, known.reduce((most, layer) => Math.max(most, layer + 1), 0));
    open.delete(top.id);
    stack.pop();
  }
}

/**
 * Returns the place of each task, and the ways of the dependencies. A dependency over several
 * layers leads around the tasks between: it gets a narrow lane in each layer on its way.
 * Dependencies of the same task share their lanes.
 * @param {Task[]} tasks
 * @returns {{placed: Placed[], ways: Way[], layers: number, most: number}}
 */
export function layOut(tasks) {
  const edges = edgesOf(tasks);
  const ids = tasks.map((task) => task.id);
  const layerOf = layersOf(ids, edges);
  /** @type {string[][]} */
  const layers = [];
  for (const id of ids) (layers[layerOf.get(id) ?? 0] ??= []).push(id);
  const ways = edges.map((edge) => ({ ...edge, by: lanes(edge, layerOf, layers) }));
  const steps = ways.flatMap(({ from, by, to }) => {
    const stops = [from, ...by, to];
    return stops.slice(1).map((stop, n) => ({ from: stops[n] ?? from, to: stop }));
  });
  for (let pass = 0; pass < PASSES; pass += 1) reorder(layers, steps, pass % 2 === 0);
  const placed = layers.flatMap((layer, at) => placesIn(layer, at));
  const ends = placed.map(({ place, isLane }) => place + (isLane ? LANE : 1));
  const most = ends.reduce((most, end) => Math.max(most, end), 0);
  return { placed, ways, layers: layers.length, most };
}

/**
 * Adds the lanes of a dependency to the layers between its ends.
 * @param {Edge} edge
 * @param {Map<string, number>} layerOf
 * @param {string[][]} layers
 */
function lanes({ from, to }, layerOf, layers) {
  const [first, last] = [layerOf.get(from) ?? 0, layerOf.get(to) ?? 0];
  const by = [];
  for (let at = first + 1; at < last; at += 1) {
    const lane = `lane ${at} ${to}`;
    if (!layers[at]?.includes(lane)) layers[at]?.push(lane);
    by.push(lane);
  }
  return by;
}

/**
 * @param {string[]} layer
 * @param {number} at
 * @returns {Placed[]}
 */
function placesIn(layer, at) {
  let place = 0;
  return layer.map((id) => {
    const isLane = id.startsWith("lane ");
    const placed = { id, layer: at, place, isLane };
    place += isLane ? LANE : 1;
    return placed;
  });
}

/**
 * Sorts each layer by the average place of the neighbours in the layer beside it.
 * @param {string[][]} layers
 * @param {Edge[]} edges
 * @param {boolean} isForward
 */
function reorder(layers, edges, isForward) {
  /** @type {Map<string, string[]>} */
  const neighbours = new Map();
  for (const { from, to } of edges) {
    const [id, other] = isForward ? [to, from] : [from, to];
    const known = neighbours.get(id);
    if (known) known.push(other);
    else neighbours.set(id, [other]);
  }
  const places = new Map(layers.flatMap((layer) => layer.map((id, place) => [id, place])));
  for (const layer of isForward ? layers : [...layers].reverse()) {
    const wanted = new Map(layer.map((id, place) => [id, middle(neighbours.get(id), places, place)]));
    layer.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
    layer.forEach((id, place) => places.set(id, place));
  }
}

/**
 * @param {string[] | undefined} ids
 * @param {Map<string, number>} places
 * @param {number} otherwise
 */
function middle(ids, places, otherwise) {
  if (!ids?.length) return otherwise;
  return ids.reduce((sum, id) => sum + (places.get(id) ?? 0), 0) / ids.length;
}
