//! The answer to a browser whose link or code does not open the page: a small page with the words
//! of the error. Programs get the JSON.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;

use crate::failure::Message;
use crate::replay_document::escaped;

/// The paths that a person opens with a secret.
const OPENED: [&str; 2] = ["/open/", "/pair/"];

/// Replaces the JSON of an error by a page, if a browser wants to show the answer.
pub(crate) async fn for_browsers(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_opened = OPENED.iter().any(|prefix| path.starts_with(prefix));
    let is_for_person =
        is_opened && request.method() == Method::GET && shows_html(request.headers());
    let mut response = next.run(request).await;
    let message = response.extensions().get::<Message>().filter(|_| is_for_person);
    let Some(Message(text)) = message else { return response };
    let page = page_with(text);
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    *response.body_mut() = Body::from(page);
    response
}

fn shows_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/html"))
}

fn page_with(message: &str) -> String {
    format!(
        r#"<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>pitcrew</title>
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="dark light" />
    <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/assets/style.css" />
  </head>
  <body>
    <main class="page">
      <h1>This does not open the page</h1>
      <p class="error">{}</p>
      <p>Ask the person who runs the server for a new link or code.</p>
      <p><a href="/">Open the page</a> if this browser has opened it before.</p>
    </main>
  </body>
</html>
"#,
        escaped(message)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_browser_that_shows_html_gets_a_page() {
        let accepts = |value: &'static str| {
            shows_html(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]))
        };
        assert!(accepts("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(accepts("application/json, text/html;q=0.5"));
        assert!(!accepts("application/json"));
        assert!(!accepts("*/*"));
        assert!(!shows_html(&HeaderMap::new()));
    }

    #[test]
    fn a_message_is_only_text() {
        let page = page_with("<script>alert(1)</script>");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }
}
