// What the device of this browser may do. The page offers nothing else, and the server refuses it.

import { get } from "./api.js";
import { Signal, use } from "./signal.js";

/** The scopes of devices. Each opens what the ones before it open. */
const SCOPES = ["watch", "answer", "everything"];

/** The scope of this browser. It is empty until the server has named it. */
export const scope = new Signal("");

export async function readScope() {
  const { scope: named } = await get("/api/session").catch(() => ({ scope: "everything" }));
  scope.value = named;
}

/**
 * Returns true if this browser may do what needs the given scope. It is for components.
 * @param {"answer" | "everything"} needed
 */
export function useMay(needed) {
  return SCOPES.indexOf(use(scope)) >= SCOPES.indexOf(needed);
}
