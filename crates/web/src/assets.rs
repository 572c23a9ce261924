//! The files of the page, which are part of the binary.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use crate::etag::{is_known, tag_of};
use crate::failure::{Failure, code};

/// A file of the page.
struct Asset {
    name: &'static str,
    content: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, content: include_bytes!(concat!("../page/", $name)) }),*]
    };
}

/// All files of the page. A test compares them with the folder.
const ASSETS: &[Asset] = assets![
    "api.js",
    "app.js",
    "banner.js",
    "cards.js",
    "compose.js",
    "controls.js",
    "diff.js",
    "focus.js",
    "fold.js",
    "frame.js",
    "graph.js",
    "icon.svg",
    "index.html",
    "lazy.js",
    "list.js",
    "log.js",
    "long.js",
    "look.js",
    "manifest.webmanifest",
    "member.js",
    "moment.js",
    "notify.js",
    "plans.js",
    "player.js",
    "questions.js",
    "reading.js",
    "recipient.js",
    "replay.js",
    "replaying.js",
    "review.js",
    "route.js",
    "run.js",
    "session.js",
    "settings.js",
    "signal.js",
    "store.js",
    "stream.js",
    "style.css",
    "summary.js",
    "swipe.js",
    "tasks.js",
    "teams.js",
    "text.js",
    "theme.js",
    "timeline.js",
    "view.html",
    "view.js",
    "warnings.js",
    "words.js",
    "vendor/preact-htm.js",
];

/// Returns the text of a file of the page.
pub(crate) fn text_of(name: &str) -> Option<&'static str> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    std::str::from_utf8(asset.content).ok()
}

/// Returns the names of all files of the page.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ASSETS.iter().map(|asset| asset.name)
}

/// `GET /`: the page.
pub(crate) async fn index(headers: HeaderMap) -> Result<Response, Failure> {
    served(&headers, "index.html")
}

/// `GET /` of a server that was started for one view: the page of that view.
pub(crate) async fn view(headers: HeaderMap) -> Result<Response, Failure> {
    served(&headers, "view.html")
}

/// `GET /assets/{*name}`: a file of the page.
pub(crate) async fn asset(
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    served(&headers, &name)
}

fn served(headers: &HeaderMap, name: &str) -> Result<Response, Failure> {
    let asset = ASSETS.iter().find(|asset| asset.name == name).ok_or_else(|| {
        Failure::new(StatusCode::NOT_FOUND, code::NOT_FOUND, "the page has no such file")
    })?;
    let tag = tag_of(asset.content);
    // The browser asks each time whether the file is still the same, because its name stays.
    let kept = [(CACHE_CONTROL, "no-cache".to_owned()), (ETAG, tag.clone())];
    Ok(match is_known(headers, &tag) {
        true => (StatusCode::NOT_MODIFIED, kept).into_response(),
        false => (kept, [(CONTENT_TYPE, kind_of(name))], asset.content).into_response(),
    })
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, kind)| kind) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json" | "webmanifest") => "application/manifest+json",
        Some("png") => "image/png",
        Some(_) | None => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The maximum number of bytes of all files that a page loads at once.
    const BYTES_MOST: usize = 150_000;

    /// The modules that a page loads when a view is opened, with `import()`.
    const LATER: [&str; 6] =
        ["controls.js", "member.js", "replay.js", "review.js", "summary.js", "tasks.js"];

    /// Returns the files below a folder that the page needs. Notes about them are left out.
    fn files_in(folder: &Path, below: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{below}{}", entry.file_name().to_str().unwrap());
            match entry.path().is_dir() {
                true => found.extend(files_in(&entry.path(), &format!("{name}/"))),
                false if name.ends_with(".md") || name.ends_with(".d.ts") => {}
                false => drop(found.insert(name)),
            }
        }
        found
    }

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let served = ASSETS.iter().map(|asset| asset.name.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(served, files_in(&folder, ""));
        for asset in ASSETS {
            assert_ne!(kind_of(asset.name), "application/octet-stream", "{}", asset.name);
        }
    }

    /// Returns the names of the modules that a module imports, with those that these import.
    fn imported(name: &str, found: &mut BTreeSet<String>) {
        if !found.insert(name.to_owned()) {
            return;
        }
        let asset = ASSETS.iter().find(|asset| asset.name == name).unwrap();
        let text = std::str::from_utf8(asset.content).unwrap();
        // `import(...)` loads later. `from "./x.js";` and `import "./x.js";` end a line.
        let words = text.lines().filter_map(|line| line.strip_suffix("\";"));
        let modules = words.filter_map(|line| line.rsplit_once("\"./"));
        let modules =
            modules.filter(|(before, _)| before.ends_with("from ") || *before == "import ");
        modules.for_each(|(_, module)| imported(module, found));
    }

    #[track_caller]
    fn check_size(document: &str, entry: &str, later: &[&str]) {
        let mut files = BTreeSet::from([document.to_owned(), "style.css".to_owned()]);
        files.extend(["icon.svg", "manifest.webmanifest"].map(str::to_owned));
        imported(entry, &mut files);
        let of = |asset: &&Asset| files.contains(asset.name);
        let bytes: usize = ASSETS.iter().filter(of).map(|asset| asset.content.len()).sum();
        assert!(bytes <= BYTES_MOST, "{document} loads {bytes} bytes");
        for name in later {
            assert!(!files.contains(*name), "{document} loads {name} at once");
        }
    }

    #[test]
    fn each_page_is_small() {
        check_size("index.html", "app.js", &LATER);
        check_size("view.html", "view.js", &["app.js", "review.js"]);
    }

    #[test]
    fn every_module_is_loaded_by_a_page() {
        let mut files = BTreeSet::new();
        ["app.js", "view.js"].iter().chain(&LATER).for_each(|name| imported(name, &mut files));
        let modules = ASSETS.iter().map(|asset| asset.name).filter(|name| name.ends_with(".js"));
        assert_eq!(modules.map(str::to_owned).collect::<BTreeSet<_>>(), files);
    }
}
