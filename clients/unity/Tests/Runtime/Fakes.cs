using System;
using System.Collections.Generic;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate.Tests
{
    /// <summary>A clock that jumps ahead instead of waiting.</summary>
    internal sealed class JumpingClock : IClock
    {
        internal List<double> Waits { get; } = new List<double>();

        public double NowS { get; set; } = 1700000000;

        public Task Wait(double seconds, CancellationToken cancel)
        {
            cancel.ThrowIfCancellationRequested();
            Waits.Add(seconds);
            NowS += seconds;
            return Task.CompletedTask;
        }
    }

    /// <summary>Answers from a list, at once, and remembers what it was asked.</summary>
    internal sealed class ListedTransport : ITransport
    {
        private readonly Queue<Func<WireRequest, WireAnswer>> answers = new Queue<Func<WireRequest, WireAnswer>>();

        internal List<string> Lines { get; } = new List<string>();

        internal List<string> Signatures { get; } = new List<string>();

        internal List<string> LastIds { get; } = new List<string>();

        public Task<WireAnswer> Send(WireRequest request, CancellationToken cancel)
        {
            cancel.ThrowIfCancellationRequested();
            Lines.Add(request.Method + " " + request.Url.PathAndQuery);
            Signatures.Add(request.Headers.Find(header => header.Key == "Signature-Input").Value);
            LastIds.Add(request.Headers.Find(header => header.Key == "Last-Event-ID").Value);
            return Task.FromResult(answers.Dequeue()(request));
        }

        internal ListedTransport Then(int status, string body, string type = "application/json", string retryAfter = null) =>
            Then(_ => Made(status, body, type, retryAfter));

        internal ListedTransport ThenProblem(int status, string name, string more = "") => Then(
            status,
            "{\"type\":\"https://scoregate.dev/problems/" + name + "\",\"title\":\"no\"" + more + "}",
            "application/problem+json");

        internal ListedTransport ThenNothing(bool wasConnected = true) =>
            Then(_ => throw new NoAnswerException("lost", wasConnected));

        internal ListedTransport ThenFeed(string text) => Then(request =>
        {
            var bytes = Encoding.UTF8.GetBytes(text);
            request.OnBytes(bytes, bytes.Length);
            return Made(200, "", WireRequest.EventStream, null);
        });

        internal ListedTransport Then(Func<WireRequest, WireAnswer> answer)
        {
            answers.Enqueue(answer);
            return this;
        }

        private static WireAnswer Made(int status, string body, string type, string retryAfter)
        {
            var headers = new Dictionary<string, string> { { "content-type", type } };
            if (retryAfter != null)
            {
                headers["retry-after"] = retryAfter;
            }

            return new WireAnswer(status, headers, Encoding.UTF8.GetBytes(body));
        }
    }

    /// <summary>What tests are made of.</summary>
    internal static class Given
    {
        internal const string Receipt =
            "{\"submission\":\"s1\",\"board\":\"tiny\",\"player\":\"p1\",\"score\":5,\"state\":\"pending\"}";

        internal static Run Run(string ticket = "ticket-1") => Scoregate.Run.FromJson(
            "{\"run\":\"r1\",\"ticket\":\"" + ticket + "\",\"key\":\"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\","
            + "\"seed\":\"18446744073709551615\",\"board\":\"tiny\",\"player\":\"p1\",\"build\":\"tiny-1\","
            + "\"simulator\":null,\"ticks_per_second\":60,\"checkpoint_ticks\":4,\"issued_at\":\"x\",\"expires_at\":\"y\"}");

        internal static string Submission(string state) =>
            "{\"submission\":\"s1\",\"board\":\"tiny\",\"player\":\"p1\",\"score\":5,\"state\":\"" + state + "\"}";

        internal static ScoregateClient Client(
            ListedTransport transport, JumpingClock clock, string folder = null, int attempts = 6) => new ScoregateClient(
            "https://Scores.Example/v0",
            new ScoregateOptions
            {
                Transport = transport,
                Clock = clock,
                QueueFolder = folder,
                Token = "token-1",
                Attempts = attempts,
                Chance = () => 0.5,
            });

        /// <summary>Return what a task has come to. Tests never wait: their clock jumps.</summary>
        internal static T Now<T>(Task<T> task)
        {
            if (!task.IsCompleted)
            {
                throw new InvalidOperationException("it is not done");
            }

            return task.GetAwaiter().GetResult();
        }
    }
}
