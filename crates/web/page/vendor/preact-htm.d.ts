export { h, render, Fragment, createRef } from "preact";
export {
  useState,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useCallback,
} from "preact/hooks";
export { signal, computed, effect, batch, untracked } from "@preact/signals";
import type { VNode } from "preact";
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
