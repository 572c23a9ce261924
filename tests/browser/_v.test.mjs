await import("./views.mjs");
