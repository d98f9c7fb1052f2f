using System;
using System.Globalization;

namespace Scoregate
{
    /// <summary>Says what is worth repeating, and how long to wait before.</summary>
    internal static class Backoff
    {
        /// <summary>A gateway that asks for a longer wait is not waited for.</summary>
        internal const double LongestAskedS = 60;

        private const double FirstS = 0.5;
        private const double LongestS = 30;

        internal static bool IsWorthRepeating(ScoregateError error, bool isSafe)
        {
            switch (error.Status)
            {
                case 0:
                    return isSafe || error.NothingWasSent;
                case 429:
                case 503:
                    return true;
                case 408:
                case 425:
                case 500:
                case 502:
                case 504:
                    return isSafe;
                default:
                    return false;
            }
        }

        /// <summary>Return the seconds before the next attempt: as asked, or drawn by chance from a growing span.</summary>
        internal static double PauseS(int failures, double? askedS, double chance) =>
            askedS ?? Math.Min(FirstS * Math.Pow(2, failures - 1), LongestS) * (0.5 + (chance / 2));

        /// <summary>Return the seconds that Retry-After asks for: a number or a date (RFC 9110, 10.2.3).</summary>
        internal static double? RetryAfterS(string value, double nowS)
        {
            const NumberStyles Digits = NumberStyles.None;
            var invariant = CultureInfo.InvariantCulture;
            if (string.IsNullOrEmpty(value))
            {
                return null;
            }

            if (long.TryParse(value, Digits, invariant, out var seconds))
            {
                return seconds;
            }

            const DateTimeStyles Utc = DateTimeStyles.AssumeUniversal | DateTimeStyles.AdjustToUniversal;
            if (DateTimeOffset.TryParseExact(value, "r", invariant, Utc, out var date))
            {
                return Math.Max(0, date.ToUnixTimeMilliseconds() / 1000.0 - nowS);
            }

            return null;
        }
    }
}
