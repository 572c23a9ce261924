//! The ETags of answers. A caller that has the present answer gets 304 and no body.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// The number of bytes of a digest that a tag has.
const TAG_BYTES: usize = 16;

/// Returns the tag of a content.
pub(crate) fn tag_of(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    let hex: String = digest.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Whether the caller has the content with this tag already.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    })
}

/// Returns the answer of a read with its tag, or 304 if the caller has it.
pub(crate) fn tagged<T: Serialize>(headers: &HeaderMap, answer: &T) -> Result<Response, Failure> {
    let value = serde_json::to_value(answer).map_err(|error| Failure::internal(&error))?;
    let tag = tag_of(value.to_string().as_bytes());
    Ok(match is_known(headers, &tag) {
        true => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
        false => ([(ETAG, tag)], Json(value)).into_response(),
    })
}

/// Returns a long answer of a read, which was written as JSON, with its tag. Or 304 if the caller has
/// it.
pub(crate) fn tagged_json(headers: &HeaderMap, json: Vec<u8>) -> Response {
    let tag = tag_of(&json);
    match is_known(headers, &tag) {
        true => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
        false => {
            let kind = HeaderValue::from_static("application/json");
            ([(ETAG, tag)], [(CONTENT_TYPE, kind)], json).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_tag_is_found_in_every_form() {
        let tag = tag_of(b"one");
        assert_ne!(tag, tag_of(b"two"));
        let known = |line: &str| {
            let value = HeaderValue::from_str(line).unwrap();
            is_known(&HeaderMap::from_iter([(IF_NONE_MATCH, value)]), &tag)
        };
        for line in [tag.clone(), format!("\"x\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            assert!(known(&line), "{line}");
        }
        assert!(!known("\"x\""));
        assert!(!is_known(&HeaderMap::new(), &tag));
    }
}
