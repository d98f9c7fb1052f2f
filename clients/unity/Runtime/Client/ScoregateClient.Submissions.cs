using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;

namespace Scoregate
{
    /// <content>What a player reads and says of their submissions.</content>
    public sealed partial class ScoregateClient
    {
        /// <summary>Read a submission of this player in its current state.</summary>
        public Task<Submission> Submission(string submission, CancellationToken cancel = default(CancellationToken)) =>
            Get(SubmissionPath(submission), item => new Submission(item), cancel, asPlayer: true);

        /// <summary>List the recordings that the player is asked to send, the next deadline first.</summary>
        public async Task<IReadOnlyList<Reveal>> Reveals(CancellationToken cancel = default(CancellationToken)) =>
            (await Get("/v1/reveals", item => new RevealList(item), cancel, asPlayer: true)).Reveals;

        /// <summary>Send a recording that was asked for. Safe to repeat.</summary>
        public async Task Reveal(
            string submission, byte[] recording, CancellationToken cancel = default(CancellationToken))
        {
            var path = SubmissionPath(submission) + "/recording";
            var request = connection.AsPlayer(connection.Request("PUT", path));
            request.With("Content-Type", "application/octet-stream");
            request.Body = recording;
            await connection.Call(request, cancel);
        }

        /// <summary>Answer a moderator's question about a submission, once. Safe to repeat.</summary>
        public Task Answer(string submission, string text, CancellationToken cancel = default(CancellationToken)) =>
            Say(submission, "answer", text, cancel);

        /// <summary>Appeal against the decision on a submission, once. Safe to repeat.</summary>
        public Task Appeal(string submission, string text, CancellationToken cancel = default(CancellationToken)) =>
            Say(submission, "appeal", text, cancel);

        private Task Say(string submission, string verb, string text, CancellationToken cancel)
        {
            var request = connection.AsPlayer(connection.Request("POST", SubmissionPath(submission) + "/" + verb));
            return connection.Call(request, new JsonObject().Add("text", text).Build(), cancel);
        }

        private static string SubmissionPath(string submission) => "/v1/submissions/" + Query.Segment(submission);
    }
}
