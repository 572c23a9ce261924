//! Decides who may call.
//!
//! - Programs send the token as `Authorization: Bearer`.
//! - A browser opens a one-time link and gets a cookie. Other sites cannot use the cookie: the
//!   request must name our own host, and a change must have our own origin.
//! - A process that a tool of an agent started may not call at all, as at the control socket.

use axum::extract::{Path, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION,
    ORIGIN, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::app::Shared;
use crate::caller::Caller;
use crate::failure::{Failure, code};
use crate::sessions::Sessions;
use crate::token::Token;

/// The names by which a browser reaches a server on this machine.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// How long a browser keeps its cookie, in seconds. The session ends with the server anyway.
const COOKIE_SECONDS: u32 = 30 * 24 * 60 * 60;

/// What a browser may load and do on the page. No other origin is ever asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

/// The keys to the server.
pub(crate) struct Keys {
    port: u16,
    token: Token,
    sessions: Sessions,
}

impl Keys {
    pub(crate) fn new(port: u16, token: Token) -> Self {
        Self { port, token, sessions: Sessions::default() }
    }

    /// Makes a link that opens the page once.
    pub(crate) fn new_link(&self) -> String {
        format!("http://127.0.0.1:{}/open/{}", self.port, self.sessions.new_link())
    }

    /// The name of the cookie. It has the port, because a browser sends a cookie to all ports of a
    /// host, and several servers can run.
    fn cookie(&self) -> String {
        format!("pitcrew-{}", self.port)
    }

    fn is_own_host(&self, host: &str) -> bool {
        HOSTS.iter().any(|own| host == format!("{own}:{}", self.port))
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_own_host(host))
    }

    /// Refuses a request that names another host or another origin. A page of another site can
    /// reach this machine under a name of its own, which its owner lets point here.
    fn check_site(&self, request: &Request) -> Result<(), Failure> {
        let host = text_of(request.headers(), &HOST)
            .or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        if !host.is_some_and(|host| self.is_own_host(host)) {
            let message = format!("the Host of the request is not 127.0.0.1:{}", self.port);
            return Err(forbidden(message));
        }
        match request.headers().get(ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.to_str().is_ok_and(|it| self.is_own_origin(it)) => Ok(()),
            Some(_) => Err(forbidden("the request comes from a page of another origin")),
        }
    }

    /// Refuses a request without the token and without a session.
    fn check_key(&self, request: &Request) -> Result<(), Failure> {
        let headers = request.headers();
        let bearer = text_of(headers, &AUTHORIZATION).and_then(|it| it.strip_prefix("Bearer "));
        if bearer.is_some_and(|given| self.token.is(given.trim())) {
            return Ok(());
        }
        let name = self.cookie();
        if !cookies(headers, &name).any(|session| self.sessions.has(session)) {
            let message = "the request has no valid token; `pitcrew serve` says which file has it";
            return Err(Failure::new(StatusCode::UNAUTHORIZED, code::UNAUTHORIZED, message));
        }
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if is_read || headers.contains_key(ORIGIN) {
            return Ok(());
        }
        Err(forbidden("a change by a browser must have our own Origin"))
    }
}

fn forbidden(message: impl Into<String>) -> Failure {
    Failure::new(StatusCode::FORBIDDEN, code::FORBIDDEN, message)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
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
    if let Err(failure) = app.keys.check_key(&request) {
        return failure.into_response();
    }
    let caller = request.extensions().get::<Caller>().cloned();
    match caller {
        Some(caller) => match caller.check().await {
            Ok(()) => next.run(request).await,
            Err(why) => forbidden(why).into_response(),
        },
        None => next.run(request).await,
    }
}

/// `GET /open/{nonce}`: opens the page once, and gives the browser its cookie.
pub(crate) async fn open(
    State(app): State<Shared>,
    Path(nonce): Path<String>,
) -> Result<Response, Failure> {
    let Some(session) = app.keys.sessions.open(&nonce) else {
        let message = "this link was opened before, or is too old; `pitcrew serve` makes another";
        return Err(forbidden(message));
    };
    let name = app.keys.cookie();
    let cookie =
        format!("{name}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={COOKIE_SECONDS}");
    Ok((StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, cookie)]).into_response())
}
