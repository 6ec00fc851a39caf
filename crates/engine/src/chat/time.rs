//! `strftime_now`: the date for templates that print one, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date and time of the Gregorian calendar, in UTC.
struct Moment {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
    /// From 1.
    day_of_year: i64,
    /// 0 is Sunday.
    weekday: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Moment {
    fn new(now: SystemTime) -> Moment {
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let seconds = i64::try_from(seconds).unwrap_or(0).min(253_402_300_799);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Counts off whole years, one by one: a few thousand steps at most, and easy to verify.
        let (mut year, mut left) = (1970, days);
        while left >= year_length(year) {
            left -= year_length(year);
            year += 1;
        }
        let day_of_year = left + 1;
        let mut month = 1;
        while left >= month_length(year, month) {
            left -= month_length(year, month);
            month += 1;
        }
        Moment {
            year,
            month,
            day: left + 1,
            day_of_year,
            // The first day of 1970 was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_length(year: i64) -> i64 {
    if is_leap(year) { 366 } else { 365 }
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn name<'n>(names: &[&'n str], number: i64) -> &'n str {
    usize::try_from(number).ok().and_then(|number| names.get(number)).copied().unwrap_or("")
}

/// `datetime.now().strftime(format)`, with those format directives of Python that dates use.
pub(super) fn format(codes: &str, at: SystemTime) -> Result<String, Error> {
    let now = Moment::new(at);
    let mut out = String::new();
    let mut chars = codes.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut code = chars.next();
        // Codes that stand for several others.
        let several = match code {
            Some('F') => "%Y-%m-%d",
            Some('T' | 'X') => "%H:%M:%S",
            Some('D' | 'x') => "%m/%d/%y",
            Some('R') => "%H:%M",
            Some('c') => "%a %b %e %H:%M:%S %Y",
            Some('r') => "%I:%M:%S %p",
            _ => "",
        };
        if !several.is_empty() {
            out.push_str(&format(several, at)?);
            continue;
        }
        // `%-d` is the number without its leading zero.
        let padded = code != Some('-');
        if !padded {
            code = chars.next();
        }
        let hour12 = if now.hour % 12 == 0 { 12 } else { now.hour % 12 };
        let (number, width) = match code {
            Some('Y') => (now.year, 4),
            Some('y') => (now.year % 100, 2),
            Some('m') => (now.month, 2),
            Some('d') => (now.day, 2),
            Some('j') => (now.day_of_year, 3),
            Some('H') => (now.hour, 2),
            Some('I') => (hour12, 2),
            Some('M') => (now.minute, 2),
            Some('S') => (now.second, 2),
            Some('w') => (now.weekday, 1),
            Some('u') => (if now.weekday == 0 { 7 } else { now.weekday }, 1),
            Some('C') => (now.year / 100, 2),
            Some('f') => (0, 6),
            Some('e') => {
                out.push_str(&format!("{:>2}", now.day));
                continue;
            }
            other => {
                let abbreviated = |name: &str| name.get(..3).unwrap_or(name).to_owned();
                match other {
                    Some('B') => out.push_str(name(&MONTHS, now.month - 1)),
                    // Times are in UTC, and have no name of a zone as in Python.
                    Some('Z' | 'z') => {}
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('b' | 'h') => out.push_str(&abbreviated(name(&MONTHS, now.month - 1))),
                    Some('A') => out.push_str(name(&DAYS, now.weekday)),
                    Some('a') => out.push_str(&abbreviated(name(&DAYS, now.weekday))),
                    Some('p') => out.push_str(if now.hour < 12 { "AM" } else { "PM" }),
                    Some('%') => out.push('%'),
                    other => {
                        let code = other.map(String::from).unwrap_or_default();
                        return Err(Error::new(
                            ErrorKind::InvalidOperation,
                            format!("strftime_now: the code %{code} is not supported"),
                        ));
                    }
                }
                continue;
            }
        };
        let text = if padded { format!("{number:0width$}") } else { number.to_string() };
        out.push_str(&text);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64, codes: &str) -> String {
        format(codes, UNIX_EPOCH + Duration::from_secs(seconds)).expect("a known format")
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(at(0, "%Y-%m-%d %H:%M:%S %A %j"), "1970-01-01 00:00:00 Thursday 001");
        // 29 February of a leap century, and the last second of an ordinary year.
        assert_eq!(at(951_782_400, "%d %B %Y, %a, day %j"), "29 February 2000, Tue, day 060");
        assert_eq!(at(1_735_689_599, "%-d %b %y %I:%M %p %%"), "31 Dec 24 11:59 PM %");
        assert_eq!(at(951_782_400, "%F %T %D %R [%e] %C %u%n"), "2000-02-29 00:00:00 02/29/00 00:00 [29] 20 2\n");
        assert_eq!(at(0, "[%e]"), "[ 1]");
        assert_eq!(at(4_107_542_400, "%d %b %Y"), "01 Mar 2100");
    }

    #[test]
    fn an_unknown_code_is_an_error_that_names_it() {
        let error = format("%Q", UNIX_EPOCH).expect_err("no such code");
        assert!(error.to_string().contains("%Q"), "{error}");
        assert!(format("%", UNIX_EPOCH).is_err());
    }
}
