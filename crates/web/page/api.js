// Calls the API of the server. Every failure is a `Failure` with the code of the API.

import { Signal } from "./signal.js";

/** Whether the server has refused this browser: it was removed, or it never was paired. */
export const isUnpaired = new Signal(false);

export const UNPAIRED =
  "The server does not know this browser: it was removed, or the server was started again. " +
  "`pitcrew serve` prints a link when it starts, and `pitcrew devices add` makes one that lasts.";

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
  return read(await answered(path, request));
}

/**
 * Returns the data of an answer, or throws what it says.
 * @param {Response} response
 * @returns {Promise<any>}
 */
async function read(response) {
  const data = await response.json().catch(() => null);
  if (response.ok) return data;
  if (response.status === 401) isUnpaired.value = true;
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

/** The key of a request that may be sent again. A request with another body has another key. */
export class RequestKey {
  #body = "";
  #id = "";

  /**
   * Returns the headers of a request with this body.
   * @param {unknown} body
   */
  of(body) {
    const written = JSON.stringify(body);
    if (written !== this.#body) [this.#body, this.#id] = [written, crypto.randomUUID()];
    return { "idempotency-key": this.#id };
  }

  /** Ends the request: the next one has another key, also with the same body. */
  end() {
    this.#body = "";
  }
}

/**
 * Reads data that has a tag. The data is `null` if the tag is still the same.
 * @param {string} path
 * @param {string} tag
 */
export async function getChanged(path, tag) {
  const response = await answered(path, { headers: { "if-none-match": tag } });
  if (response.status === 304) return { data: null, tag };
  return { data: await read(response), tag: response.headers.get("etag") ?? "" };
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
  if (error instanceof Failure && error.status === 401) return UNPAIRED;
  return error instanceof Error ? error.message : String(error);
}
