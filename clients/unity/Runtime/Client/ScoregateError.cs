using System;

namespace Scoregate
{
    /// <summary>A refusal of the gateway (RFC 9457), an answer that cannot be read, or no answer (status 0).</summary>
    public sealed class ScoregateError : Exception
    {
        /// <summary>Make an error from what was answered.</summary>
        public ScoregateError(int status, JsonValue problem, double? retryAfterS = null, Exception cause = null)
            : base(MessageOf(status, problem), cause)
        {
            Status = status;
            Problem = problem;
            RetryAfterS = retryAfterS;
        }

        /// <summary>The HTTP status; 0 without an answer, or if this client refused by itself.</summary>
        public int Status { get; }

        /// <summary>The problem document, an empty object without one.</summary>
        public JsonValue Problem { get; }

        /// <summary>The seconds after which the gateway takes the request again, if it says so.</summary>
        public double? RetryAfterS { get; }

        /// <summary>The stable name of the problem, such as "run-expired"; empty without one.</summary>
        public string Reason
        {
            get
            {
                var type = TextOf(Problem["type"]);
                return type.Substring(type.LastIndexOfAny(new[] { '/', '#', ':' }) + 1);
            }
        }

        /// <summary>What went wrong, for people.</summary>
        public string Detail => DetailOf(Problem);

        /// <summary>The gateway's clock in Unix seconds, if it refused a signature for its time.</summary>
        public long? ServerTime
        {
            get
            {
                var time = Problem["server_time"];
                try
                {
                    return time.Kind == JsonKind.Number ? time.AsLong() : (long?)null;
                }
                catch (JsonException)
                {
                    return null;
                }
            }
        }

        /// <summary>True for a problem document of a gateway; false for an answer of anybody else in between.</summary>
        internal bool IsOfGateway { get; set; }

        /// <summary>True if the request never reached the gateway.</summary>
        internal bool NothingWasSent { get; private set; }

        internal static ScoregateError NoAnswer(NoAnswerException cause) =>
            new ScoregateError(0, Saying("no answer", "The gateway cannot be reached (" + cause.Message + ")."), null, cause)
            {
                NothingWasSent = !cause.WasConnected,
            };

        internal static ScoregateError Unreadable(int status, string what, Exception cause = null) =>
            new ScoregateError(status, Saying("unreadable answer", "The answer cannot be read (" + what + ")."), null, cause);

        /// <summary>Return a refusal by this client itself, under a name of its own.</summary>
        internal static ScoregateError Own(string reason, string detail) =>
            new ScoregateError(0, new JsonObject().Add("type", reason).Add("title", reason).Add("detail", detail).Build());

        private static JsonValue Saying(string title, string detail) =>
            new JsonObject().Add("title", title).Add("detail", detail).Build();

        private static string MessageOf(int status, JsonValue problem) =>
            (status == 0 ? "" : "HTTP " + status + ": ") + DetailOf(problem);

        private static string DetailOf(JsonValue problem)
        {
            var detail = TextOf(problem["detail"]);
            var title = TextOf(problem["title"]);
            return detail.Length > 0 ? detail : title.Length > 0 ? title : "no detail";
        }

        private static string TextOf(JsonValue value) => value.Kind == JsonKind.Text ? value.AsText() : "";
    }
}
