export { render } from "preact";
export { useState, useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { VNode } from "preact";
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
