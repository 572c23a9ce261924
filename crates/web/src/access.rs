//! Decides who may call.
//!
//! - Programs send the token as `Authorization: Bearer`.
//! - A browser opens a one-time link and gets a cookie. Other sites cannot use the cookie: the
//!   request must name our own host, and a change must have our own origin.
//! - A device has a token of its own, which opens what is in its scope (`devices`).
//! - A process that a tool of an agent started may not call at all, as at the control socket.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use pitcrew_protocol::ErrorCode;

use crate::app::{App, Shared};
use crate::caller::Connection;
use crate::devices::{Device, Scope, needed};
use crate::failure::{Failure, code};
use crate::read_rates::Reader;
use crate::revoked::until_removed;
use crate::routes::IDEMPOTENCY_KEY;
use crate::sessions::Sessions;
use crate::site::Site;
use crate::token::Token;

/// The kind of cookie of a browser that opened the link.
const SESSION_COOKIE: &str = "pitcrew";

/// The kind of cookie of a browser that was paired as a device.
const DEVICE_COOKIE: &str = "pitcrew-device";

/// How a browser keeps and sends a cookie: for 30 days. A session ends with the server anyway.
const COOKIE_ATTRIBUTES: &str = "HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000";

/// How long browsers use only HTTPS for this host: 180 days.
const HTTPS_ONLY: &str = "max-age=15552000";

/// What a browser may load and do on the page. No other origin is ever asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// The keys to the server.
pub(crate) struct Keys {
    site: Site,
    token: Token,
    sessions: Sessions,
}

impl Keys {
    pub(crate) fn new(site: Site, token: Token) -> Self {
        Self { site, token, sessions: Sessions::default() }
    }

    /// The addresses of the server.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Makes a link that opens the page once.
    pub(crate) fn new_link(&self) -> String {
        format!("{}/open/{}", self.site.url(), self.sessions.new_link())
    }

    /// Refuses a request that names another host or another origin. A page of another site can
    /// reach this machine under a name of its own, which its owner lets point here.
    fn check_site(&self, request: &Request) -> Result<(), Failure> {
        check_once(request.headers())?;
        let own = request.extensions().get::<Connection>().map(|it| it.caller.own().ip());
        // The first line of a request can name a host too.
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let mut hosts = text_of(request.headers(), &HOST).into_iter().chain(authority).peekable();
        if hosts.peek().is_none() || !hosts.all(|host| self.site.is_own_host(host, own)) {
            let valid = self.site.valid_hosts();
            let message = format!("the Host of the request is not {}", valid.join(", "));
            return Err(forbidden(message).with("valid_hosts", valid));
        }
        match request.headers().get(ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.to_str().is_ok_and(|it| self.site.is_own_origin(it, own)) => {
                Ok(())
            }
            Some(_) => Err(forbidden("the request comes from a page of another origin")),
        }
    }

    /// Returns the cookie with which a browser sends the token of a device. It outlives the server.
    pub(crate) fn device_cookie(&self, token: &str) -> String {
        self.set_cookie(DEVICE_COOKIE, token)
    }

    /// Returns the header that gives a browser a cookie.
    fn set_cookie(&self, kind: &str, value: &str) -> String {
        let secure = if self.site.is_https() { "; Secure" } else { "" };
        format!("{}={value}; {COOKIE_ATTRIBUTES}{secure}", self.site.cookie(kind))
    }

    /// Returns the key of a request.
    fn key_of(&self, headers: &HeaderMap) -> Key {
        if let Some(given) = text_of(headers, &AUTHORIZATION).and_then(bearer) {
            return match self.token.is(given) {
                true => Key::Token,
                false => Key::Device { token: given.to_owned(), sent_by: SentBy::Program },
            };
        }
        let name = self.site.cookie(SESSION_COOKIE);
        if let Some(id) = cookies(headers, &name).find(|session| self.sessions.has(session)) {
            return Key::Session(id.to_owned());
        }
        let name = self.site.cookie(DEVICE_COOKIE);
        match cookies(headers, &name).next() {
            Some(token) => Key::Device { token: token.to_owned(), sent_by: SentBy::Browser },
            None => Key::None,
        }
    }
}

/// The key that a request has.
enum Key {
    /// The token of the server.
    Token,
    /// The session of a browser that opened the link, with its id.
    Session(String),
    /// What may be the token of a device.
    Device {
        token: String,
        sent_by: SentBy,
    },
    None,
}

/// The kind of caller that sends the token of a device.
enum SentBy {
    /// In the header `Authorization`.
    Program,
    /// In a cookie.
    Browser,
}

/// The holder of a valid key.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    /// A program with the token of the server.
    Token,
    /// A browser that opened the link.
    Session(String),
    /// A device.
    Device(Device),
}

impl Holder {
    /// What the holder may do.
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::Token | Self::Session(_) => Scope::Everything,
            Self::Device(device) => device.scope,
        }
    }

    /// Refuses what is not in the scope of a device.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn must(&self, needed: Scope) -> Result<(), Failure> {
        let Self::Device(device) = self else { return Ok(()) };
        if device.scope >= needed {
            return Ok(());
        }
        let (name, scope) = (&device.name, device.scope.as_str());
        let message = format!("device '{name}' may {scope}, and this needs '{}'", needed.as_str());
        Err(forbidden(message).with("scope", scope).with("needed_scope", needed.as_str()))
    }

    /// Returns the holder as it is counted.
    pub(crate) fn reader(&self) -> Reader {
        match self {
            Self::Token => Reader::Token,
            Self::Session(id) => Reader::Session(id.clone()),
            Self::Device(device) => Reader::Device(device.name.clone()),
        }
    }
}

/// Checks the key of a request and what its holder may do.
async fn check_key(app: &App, request: &Parts) -> Result<Holder, Failure> {
    match app.keys.key_of(&request.headers) {
        Key::Token => Ok(Holder::Token),
        Key::Session(id) => check_browser(request).map(|()| Holder::Session(id)),
        Key::None => Err(unauthorized()),
        Key::Device { token, sent_by } => {
            let found = app.devices.find(&token).await;
            let device = found.map_err(|error| Failure::of_devices(&error))?;
            let device = device.ok_or_else(unauthorized)?;
            if matches!(sent_by, SentBy::Browser) {
                check_browser(request)?;
            }
            let holder = Holder::Device(device);
            holder.must(needed(request.method.as_str(), request.uri.path()))?;
            Ok(holder)
        }
    }
}

/// Refuses a read of a caller that reads too often.
fn check_rate(app: &App, holder: &Holder, request: &Parts) -> Result<(), Failure> {
    if !is_read(&request.method) {
        return Ok(());
    }
    app.read_rates.count(holder.reader()).map_err(|wait| too_often("you read too often", wait))
}

/// The error for a caller that must wait.
pub(crate) fn too_often(message: &str, wait: Duration) -> Failure {
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
    Failure::new(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimit.as_str(), message)
        .with("retry_after_ms", wait_ms)
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Refuses a change that another site could have made with the cookie of a browser.
fn check_browser(request: &Parts) -> Result<(), Failure> {
    if is_read(&request.method) || request.headers.contains_key(ORIGIN) {
        return Ok(());
    }
    Err(forbidden("a change by a browser must have our own Origin"))
}

/// Refuses a process that may not call.
pub(crate) fn check_caller(connection: Option<&Connection>) -> Result<(), Failure> {
    connection.map_or(Ok(()), |connection| connection.caller.check().map_err(forbidden))
}

fn unauthorized() -> Failure {
    let message = "the request has no valid token; `pitcrew serve` says which file has it";
    Failure::new(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, message)
}

pub(crate) fn forbidden(message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, code::FORBIDDEN, message)
}

/// Refuses a request that has one of these headers twice. Programs on the way could read another
/// one of the two than this server.
fn check_once(headers: &HeaderMap) -> Result<(), Failure> {
    let names = [HOST, ORIGIN, AUTHORIZATION, HeaderName::from_static(IDEMPOTENCY_KEY)];
    match names.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => Err(Failure::invalid(format!("the request has the header {name} twice"))),
        None => Ok(()),
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the token in the header `Authorization`. The scheme can have upper and lower case.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns the values of the cookie with this name.
fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Checks host and origin of every request, and adds the headers that every answer has.
pub(crate) async fn guard_site(
    State(app): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match app.keys.check_site(&request) {
        Ok(()) => enveloped(next.run(request).await),
        Err(failure) => failure.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if app.keys.site.insists_on_https() {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HTTPS_ONLY));
    }
    // An asset says itself how long it may be kept.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Gives an error without an envelope one. The router refuses a path that is not UTF-8 by itself.
fn enveloped(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = text_of(response.headers(), &CONTENT_TYPE);
    if !is_error || kind == Some("application/json") {
        return response;
    }
    Failure::unexplained(status).into_response()
}

/// Checks the key of every request of the API.
pub(crate) async fn guard_api(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let holder = match check_request(&app, &parts).await {
        Ok(holder) => holder,
        Err(failure) => return failure.into_response(),
    };
    parts.extensions.insert(holder.clone());
    let response = next.run(Request::from_parts(parts, body)).await;
    match holder {
        Holder::Device(device) => until_removed(response, app.devices.clone(), device),
        Holder::Token | Holder::Session(_) => response,
    }
}

async fn check_request(app: &App, request: &Parts) -> Result<Holder, Failure> {
    let holder = check_key(app, request).await?;
    let connection = request.extensions.get::<Connection>();
    check_caller(connection)?;
    if let Some(connection) = connection {
        connection.permit.mark_authorized(&holder.reader());
    }
    check_rate(app, &holder, request)?;
    Ok(holder)
}

/// Whether a browser has a valid cookie already.
pub(crate) async fn is_known_browser(app: &App, headers: &HeaderMap) -> bool {
    match app.keys.key_of(headers) {
        Key::Session(_) => true,
        Key::Device { token, sent_by: SentBy::Browser } => {
            app.devices.find(&token).await.is_ok_and(|device| device.is_some())
        }
        Key::Device { sent_by: SentBy::Program, .. } | Key::Token | Key::None => false,
    }
}

/// Sends a browser on to the page.
pub(crate) fn to_page() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response()
}

/// `GET /open/{nonce}`: opens the page once, and gives the browser its cookie.
pub(crate) async fn open(
    State(app): State<Shared>,
    Path(nonce): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let Some(session) = app.keys.sessions.open(&nonce) else {
        if is_known_browser(&app, &headers).await {
            return Ok(to_page());
        }
        let message =
            "this link was opened before, or is too old; start the server again for another";
        return Err(forbidden(message));
    };
    let cookie = app.keys.set_cookie(SESSION_COOKIE, &session);
    Ok((StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response())
}
