// Reads what the user typed or chose.

/**
 * Returns a listener that passes on the value of the field.
 * @param {(value: string) => void} set
 */
export const typed = (set) => (/** @type {any} */ event) => set(event.target.value);
