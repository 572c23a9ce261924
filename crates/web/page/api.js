// Calls the API of the server. Every failure is a `Failure` with the code of the API.

/** A request that the server refused, or that did not reach it. */
export class Failure extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {any} details
   */
  constructor(status, code, message, details) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/**
 * Sends a request and returns the answer as data.
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>}
 */
export async function call(method, path, body, headers = {}) {
  /** @type {RequestInit} */
  const request = { method, headers };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers = { ...headers, "content-type": "application/json" };
  }
  const response = await answered(path, request);
  const data = await response.json().catch(() => null);
  if (response.ok) return data;
  const message = data?.message ?? `the server answered with status ${response.status}`;
  throw new Failure(response.status, data?.error ?? "unknown", message, data?.details);
}

/**
 * @param {string} path
 * @param {RequestInit} request
 */
async function answered(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    throw new Failure(0, "unreachable", "the server does not answer", null);
  }
}

/** @param {string} path */
export function get(path) {
  return call("GET", path);
}

/**
 * Returns the path of a part of a team. Names are escaped, so none leads elsewhere.
 * @param {string} team
 * @param {...string} parts
 */
export function ofTeam(team, ...parts) {
  return ["/api/teams", ...[team, ...parts].map(encodeURIComponent)].join("/");
}

/**
 * Returns the error in words for a person.
 * @param {unknown} error
 */
export function inWords(error) {
  if (error instanceof Failure && error.status === 401) {
    return "You are not signed in here. Start the server again and open the link that it prints.";
  }
  return error instanceof Error ? error.message : String(error);
}
