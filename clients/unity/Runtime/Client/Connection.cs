using System;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <summary>Sends requests to one gateway, again where that is safe, and signs those that write scores.</summary>
    internal sealed class Connection
    {
        /// <summary>The longest life that the gateway allows.</summary>
        private const long SignatureLifeS = 300;

        /// <summary>A signature is not sent so shortly before its end.</summary>
        private const long SpareS = 5;

        /// <summary>The end of the year 9999.</summary>
        private const long LatestS = 253402300799;

        private const string ProblemBase = "https://scoregate.dev/problems/";

        private readonly Uri baseUrl;
        private readonly string prefix;
        private readonly ScoregateOptions options;

        internal Connection(string baseUrl, ScoregateOptions options)
        {
            this.baseUrl = new Uri(baseUrl, UriKind.Absolute);
            if (this.baseUrl.Scheme != "http" && this.baseUrl.Scheme != "https")
            {
                throw new ArgumentException("the URL of a gateway begins with http or https");
            }

            prefix = this.baseUrl.AbsolutePath.TrimEnd('/');
            this.options = options;
            Transport = options.Transport ?? Defaults.Transport();
            Clock = options.Clock ?? Defaults.Clock();
            Token = options.Token;
            OffsetS = options.ClockOffsetS;
        }

        internal ITransport Transport { get; }

        internal IClock Clock { get; }

        internal int Attempts => options.Attempts;

        internal string Token { get; set; }

        /// <summary>The seconds by which the gateway's clock is ahead.</summary>
        internal double OffsetS { get; private set; }

        internal double Chance() => options.Chance();

        internal WireRequest Request(string method, string pathAndQuery) =>
            new WireRequest(method, new Uri(baseUrl.GetLeftPart(UriPartial.Authority) + prefix + pathAndQuery));

        internal WireRequest AsPlayer(WireRequest request)
        {
            if (string.IsNullOrEmpty(Token))
            {
                throw ScoregateError.Own("token-missing", "A token is needed: set one, or create a player first.");
            }

            return request.With("Authorization", "Bearer " + Token);
        }

        /// <summary>Send a request and return its JSON. <paramref name="isSafe"/>: may it be done twice?</summary>
        internal Task<JsonValue> Call(WireRequest request, CancellationToken cancel, bool isSafe = true) =>
            Send(() => request, JsonOf, isSafe, Attempts, cancel);

        /// <summary>Send JSON and return JSON.</summary>
        internal Task<JsonValue> Call(
            WireRequest request, JsonValue content, CancellationToken cancel, bool isSafe = true)
        {
            request.With("Content-Type", "application/json");
            request.Body = JsonWriter.WriteBytes(content);
            return Call(request, cancel, isSafe);
        }

        /// <summary>
        /// Send a body under the signature of a run, as often as it takes; anew if the clock was off, or if a
        /// signature would end.
        /// </summary>
        internal async Task<JsonValue> CallSigned(
            string path, string ticket, byte[] key, byte[] body, CancellationToken cancel)
        {
            WireRequest signed = null;
            var expires = 0L;
            Func<WireRequest> sign = () =>
            {
                var now = (long)Math.Floor(Clock.NowS + OffsetS);
                if (signed == null || now > expires - SpareS)
                {
                    expires = now + SignatureLifeS;
                    signed = Signed(path, ticket, key, body, now, expires);
                }

                return signed;
            };

            try
            {
                return await Send(sign, JsonOf, true, Attempts, cancel);
            }
            catch (ScoregateError error) when (IsForClock(error))
            {
                OffsetS = error.ServerTime.Value - Clock.NowS;
                signed = null;
            }

            return await Send(sign, JsonOf, true, Attempts, cancel);
        }

        /// <summary>Send what <paramref name="make"/> makes until it is answered, and return what is read of it.</summary>
        internal async Task<T> Send<T>(
            Func<WireRequest> make, Func<WireAnswer, T> read, bool isSafe, int attempts, CancellationToken cancel)
        {
            for (var attempt = 1; ; attempt++)
            {
                ScoregateError error;
                try
                {
                    var answer = await Transport.Send(make(), cancel);
                    if (answer.IsSuccess)
                    {
                        return read(answer);
                    }

                    error = RefusalOf(answer);
                }
                catch (NoAnswerException cause)
                {
                    error = ScoregateError.NoAnswer(cause);
                }

                var isTooLong = error.RetryAfterS > Backoff.LongestAskedS;
                if (attempt >= attempts || isTooLong || !Backoff.IsWorthRepeating(error, isSafe))
                {
                    throw error;
                }

                await Clock.Wait(Backoff.PauseS(attempt, error.RetryAfterS, Chance()), cancel);
            }
        }

        internal ScoregateError RefusalOf(WireAnswer answer)
        {
            var retryAfterS = Backoff.RetryAfterS(answer.Header("Retry-After"), Clock.NowS + OffsetS);
            var problem = ProblemOf(answer);
            var type = problem["type"];
            return new ScoregateError(answer.Status, problem, retryAfterS)
            {
                IsOfGateway = answer.MediaType() == "application/problem+json" && type.Kind == JsonKind.Text
                    && type.AsText().StartsWith(ProblemBase, StringComparison.Ordinal),
            };
        }

        internal static JsonValue JsonOf(WireAnswer answer)
        {
            try
            {
                return JsonReader.Read(answer.Body);
            }
            catch (JsonException error)
            {
                throw ScoregateError.Unreadable(answer.Status, error.Message, error);
            }
        }

        /// <summary>Return what was read of an answer, or say that it cannot be read.</summary>
        internal static T Read<T>(JsonValue json, Func<JsonValue, T> read)
        {
            try
            {
                return read(json);
            }
            catch (JsonException error)
            {
                throw ScoregateError.Unreadable(200, error.Message, error);
            }
        }

        // Anybody else in between sets no clock, and nobody sets it to another age.
        private static bool IsForClock(ScoregateError error) =>
            error.Status == 401 && error.IsOfGateway && error.Reason == "signature-expired"
            && error.ServerTime > 0 && error.ServerTime < LatestS;

        private WireRequest Signed(string path, string ticket, byte[] key, byte[] body, long created, long expires)
        {
            var request = Request("POST", path);
            var url = request.Url;
            var target = new SignedTarget
            {
                Authority = (url.IsDefaultPort ? url.Host : url.Host + ":" + url.Port).ToLowerInvariant(),
                Path = url.AbsolutePath,
                Query = url.Query.TrimStart('?'),
            };
            var parameters = new SignatureParameters
            {
                Created = created,
                Expires = expires,
                Nonce = options.Nonce(),
                KeyId = ticket,
            };
            request.Headers.AddRange(Signing.Sign(target, body, parameters, key));
            request.Body = body;
            return request;
        }

        private static JsonValue ProblemOf(WireAnswer answer)
        {
            try
            {
                var problem = JsonReader.Read(answer.Body);
                if (problem.Kind == JsonKind.Object)
                {
                    return problem;
                }
            }
            catch (JsonException)
            {
                // Not from the gateway: a proxy's page.
            }

            return new JsonObject().Add("title", "HTTP status " + answer.Status).Build();
        }
    }
}
