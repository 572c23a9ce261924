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
    "cards.js",
    "compose.js",
    "diff.js",
    "fold.js",
    "graph.js",
    "icon.svg",
    "index.html",
    "list.js",
    "log.js",
    "long.js",
    "manifest.webmanifest",
    "member.js",
    "notify.js",
    "plans.js",
    "questions.js",
    "reading.js",
    "review.js",
    "route.js",
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
    "words.js",
    "vendor/preact-htm.js",
];

/// `GET /`: the page.
pub(crate) async fn index(headers: HeaderMap) -> Result<Response, Failure> {
    served(&headers, "index.html")
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

    /// The maximum number of bytes of all files of the page.
    const BYTES_MOST: usize = 150_000;

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

    #[test]
    fn the_page_is_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.content.len()).sum();
        assert!(bytes <= BYTES_MOST, "{bytes} bytes");
    }
}
