//! Puts modules of the page together as one module, for a document that loads no other file.
//!
//! Each module becomes a function that is called once and returns the exports of the module. The
//! names of two modules therefore never clash. All modules of the page have these forms, and
//! everything else is refused:
//!
//! - `import { a, b as c } from "./x.js";` is a whole line.
//! - `export` begins a line, before `const`, `class`, `function` or `async function`.
//! - `import("./x.js")` loads a module later. Here the module is there at once.
//! - A vendored module ends with `export{a as b,c as d};` instead.

use std::collections::BTreeSet;

use thiserror::Error;

/// The beginning of an expression that loads a module later.
const LATER: &str = "import(\"./";

/// The words before the name of an export.
const EXPORTED: [&str; 4] = ["async function ", "function ", "class ", "const "];

/// Why modules of the page cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModuleError {
    /// A module is imported that does not exist.
    #[error("the page has no module {0}")]
    Missing(String),
    /// A module imports itself, over other modules.
    #[error("the module {0} of the page imports itself")]
    Circle(String),
    /// A line has an import or an export of an unknown form.
    #[error("line {line} of the module {module} of the page has an unknown form: {text}")]
    Form {
        /// The name of the module.
        module: String,
        /// The number of the line, from 1 up.
        line: usize,
        /// The line.
        text: String,
    },
}

/// Returns one module that does the same as the module `entry` with all that it imports. `text_of`
/// returns the text of a module.
pub(crate) fn put_together<'a>(
    entry: &str,
    text_of: impl Fn(&str) -> Option<&'a str>,
) -> Result<String, ModuleError> {
    let mut whole = Whole {
        text_of,
        begun: BTreeSet::new(),
        done: BTreeSet::new(),
        text: "const modules = {};\n".to_owned(),
    };
    whole.add(entry)?;
    Ok(whole.text)
}

struct Whole<F> {
    text_of: F,
    /// The modules that were begun, to find circles.
    begun: BTreeSet<String>,
    done: BTreeSet<String>,
    text: String,
}

impl<'a, F: Fn(&str) -> Option<&'a str>> Whole<F> {
    /// Adds a module after those that it imports.
    fn add(&mut self, name: &str) -> Result<(), ModuleError> {
        if self.done.contains(name) {
            return Ok(());
        }
        if !self.begun.insert(name.to_owned()) {
            return Err(ModuleError::Circle(name.to_owned()));
        }
        let missing = || ModuleError::Missing(name.to_owned());
        let module = Module::read(name, (self.text_of)(name).ok_or_else(missing)?)?;
        for imported in &module.imported {
            self.add(imported)?;
        }
        let Module { body, exported, .. } = module;
        let exported = exported.join(", ");
        self.text.push_str(&format!(
            "modules[\"{name}\"] = (() => {{\n{body}return {{ {exported} }};\n}})();\n"
        ));
        self.done.insert(name.to_owned());
        Ok(())
    }
}

/// A module without `import` and `export`.
#[derive(Default)]
struct Module {
    body: String,
    /// The names of the imported modules.
    imported: Vec<String>,
    /// The exports, as fields of an object.
    exported: Vec<String>,
}

impl Module {
    fn read(name: &str, text: &str) -> Result<Self, ModuleError> {
        let mut module = Self::default();
        let (text, listed) = without_list(text);
        if let Some(listed) = listed {
            module.exported.extend(listed.split(',').map(exported_as));
        }
        for (n, line) in text.lines().enumerate() {
            module.line(line).ok_or_else(|| ModuleError::Form {
                module: name.to_owned(),
                line: n + 1,
                text: line.chars().take(200).collect(),
            })?;
        }
        Ok(module)
    }

    /// Adds a line. Returns `None` if its form is unknown.
    fn line(&mut self, line: &str) -> Option<()> {
        if let Some(import) = line.strip_prefix("import ") {
            let (names, module) =
                import.strip_prefix("{ ")?.strip_suffix("\";")?.split_once(" } from \"./")?;
            let names = names.replace(" as ", ": ");
            self.body.push_str(&format!("const {{ {names} }} = modules[\"{module}\"];\n"));
            self.imported.push(module.to_owned());
            return Some(());
        }
        if let Some(export) = line.strip_prefix("export ") {
            let rest = EXPORTED.iter().find_map(|words| export.strip_prefix(words))?;
            let is_in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
            let name: String = rest.chars().take_while(|c| is_in_name(*c)).collect();
            if name.is_empty() {
                return None;
            }
            self.exported.push(name);
            self.body.push_str(export);
        } else {
            self.later(line)?;
        }
        self.body.push('\n');
        Some(())
    }

    /// Adds a line in which modules can be loaded later.
    fn later(&mut self, line: &str) -> Option<()> {
        // The comments name modules for the type check.
        let is_comment = ["//", "/*", "*"].iter().any(|sign| line.trim_start().starts_with(sign));
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(LATER).filter(|_| !is_comment) {
            let (module, after) = after.split_once("\")")?;
            self.body.push_str(&format!("{before}Promise.resolve(modules[\"{module}\"])"));
            self.imported.push(module.to_owned());
            rest = after;
        }
        self.body.push_str(rest);
        (is_comment || !rest.contains("import(")).then_some(())
    }
}

/// Returns a module without the list of exports at its end, and this list.
fn without_list(text: &str) -> (&str, Option<&str>) {
    let listed = || text.trim_end().strip_suffix("};")?.rsplit_once("export{");
    match listed() {
        Some((body, listed)) if !listed.contains(['\n', '{']) => (body, Some(listed)),
        Some(_) | None => (text, None),
    }
}

/// Returns an entry of a list of exports as a field of an object.
fn exported_as(entry: &str) -> String {
    match entry.split_once(" as ") {
        Some((inner, outer)) => format!("{outer}: {inner}"),
        None => entry.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts modules together that are given with their names. The first one is the entry.
    fn check(modules: &[(&str, &'static str)]) -> Result<String, ModuleError> {
        let text_of = |name: &str| modules.iter().find(|it| it.0 == name).map(|it| it.1);
        put_together(modules[0].0, text_of)
    }

    #[test]
    fn imports_and_exports_become_fields() {
        let whole = check(&[
            ("a.js", "import { b, c as d } from \"./b.js\";\nb(d);\n"),
            ("b.js", "// b\nexport const b = (x) => x;\nexport async function c() {}\n"),
        ]);
        insta::assert_snapshot!(whole.unwrap(), @r#"
        const modules = {};
        modules["b.js"] = (() => {
        // b
        const b = (x) => x;
        async function c() {}
        return { b, c };
        })();
        modules["a.js"] = (() => {
        const { b, c: d } = modules["b.js"];
        b(d);
        return {  };
        })();
        "#);
    }

    #[test]
    fn a_module_that_is_loaded_later_is_there_at_once() {
        let whole = check(&[
            ("a.js", "/** @type {import(\"./c.js\").C} */\nconst b = () => import(\"./b.js\");\n"),
            ("b.js", "var x=1;export{x as y,z};\n"),
        ]);
        insta::assert_snapshot!(whole.unwrap(), @r#"
        const modules = {};
        modules["b.js"] = (() => {
        var x=1;
        return { y: x, z };
        })();
        modules["a.js"] = (() => {
        /** @type {import("./c.js").C} */
        const b = () => Promise.resolve(modules["b.js"]);
        return {  };
        })();
        "#);
    }

    #[test]
    fn unknown_forms_are_refused() {
        for line in [
            "import \"./b.js\";",
            "import b from \"./b.js\";",
            "import { b } from \"b\";",
            "import {",
            "export default 1;",
            "export * from \"./b.js\";",
            "export let b = 1;",
            "export const { b } = c;",
            "const b = import(`./b.js`);",
            "const b = import(\"./b.js\", {});",
        ] {
            let text: &'static str = line.to_owned().leak();
            let form = ModuleError::Form { module: "a.js".into(), line: 1, text: line.to_owned() };
            assert_eq!(check(&[("a.js", text), ("b.js", "")]), Err(form), "{line}");
        }
    }

    #[test]
    fn missing_modules_and_circles_are_refused() {
        let a = ("a.js", "import { b } from \"./b.js\";\n");
        assert_eq!(check(&[a]), Err(ModuleError::Missing("b.js".to_owned())));
        let b = ("b.js", "import { a } from \"./a.js\";\n");
        assert_eq!(check(&[a, b]), Err(ModuleError::Circle("a.js".to_owned())));
    }
}
