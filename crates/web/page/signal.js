// Values that components show. A component that uses a signal is drawn again when it changes.

import { useLayoutEffect, useState } from "./vendor/preact-htm.js";

/**
 * A value with listeners.
 * @template T
 */
export class Signal {
  #value;
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /** @param {T} value */
  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  set value(value) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const listener of [...this.#listeners]) listener();
  }

  /**
   * Calls a function after each change, until the returned function is called.
   * @param {() => void} listener
   */
  listen(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/**
 * Returns the value of a signal for the component that is being drawn.
 * @template T
 * @param {Signal<T>} signal
 * @returns {T}
 */
export function use(signal) {
  const [, draw] = useState({});
  const { value } = signal;
  useLayoutEffect(() => {
    const changed = () => draw({});
    // The value can have changed since it was drawn.
    if (!Object.is(signal.value, value)) changed();
    return signal.listen(changed);
  }, [signal]);
  return value;
}

/**
 * Returns a listener that passes on what the user typed or chose.
 * @param {(value: string) => void} set
 */
export const typed = (set) => (/** @type {any} */ event) => set(event.target.value);
