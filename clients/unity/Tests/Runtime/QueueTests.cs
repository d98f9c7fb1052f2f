using System.IO;
using System.Linq;
using System.Threading.Tasks;
using NUnit.Framework;

namespace Scoregate.Tests
{
    public sealed class QueueTests : WithoutContext
    {
        private readonly ListedTransport transport = new ListedTransport();
        private readonly JumpingClock clock = new JumpingClock();
        private string folder;

        [SetUp]
        public void MakeFolder() => folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName(), "queue");

        [TearDown]
        public void RemoveFolder() => Directory.Delete(Path.GetDirectoryName(folder), true);

        [Test]
        public void TheSameRunAndBodyIsOneEntryAndAnotherBodyAnother()
        {
            var client = Client();
            var first = Later(client, 5);
            clock.NowS += 1;
            Assert.AreEqual(first.Name, Later(client, 5).Name);
            clock.NowS -= 1;
            Assert.AreEqual("1700000000001", Later(client, 6).Name.Substring(0, 13));
            Assert.AreEqual(2, client.Waiting);
        }

        [Test]
        public void NothingIsTriedBehindALostNetwork()
        {
            var client = Client();
            Later(client, 5);
            Later(client, 6);
            transport.ThenNothing();
            var report = Given.Now(client.Flush());
            CollectionAssert.AreEqual(new[] { "kept", "kept" }, report.Outcomes.Select(each => each.Outcome));
            Assert.AreEqual(1, transport.Lines.Count);
        }

        [Test]
        public void AFlushBesideAFlushIsTheSame()
        {
            var client = Client();
            Later(client, 5);
            var answer = new TaskCompletionSource<WireAnswer>();
            var waiting = new ScoregateClient("https://a.example", new ScoregateOptions
            {
                Transport = new Held(answer), Clock = clock, QueueFolder = folder,
            });
            var first = waiting.Flush();
            Assert.IsTrue(ReferenceEquals(first, waiting.Flush()));
            var other = Given.Now(client.Flush()); // another client of this folder
            CollectionAssert.AreEqual(new[] { "kept" }, other.Outcomes.Select(each => each.Outcome));
            answer.SetException(new NoAnswerException("lost", true));
            Assert.AreEqual("kept", Given.Now(first).Outcomes[0].Outcome);
        }

        [Test]
        public void ACommittedRecordingStaysUntilItsRunIsVerified()
        {
            var client = Client();
            var claim = new Claim(5, 9, new byte[] { 1, 2, 3 });
            Given.Now(client.SubmitLater(Given.Run(), claim, committed: true));
            const string Asked = "{\"reveals\":[{\"submission\":\"s1\",\"board\":\"tiny\",\"recording_digest\":\"d\","
                + "\"recording_bytes\":3,\"reveal_by\":\"x\"}]}";
            transport.Then(202, Given.Receipt).Then(200, Asked).Then(200, "{}").Then(200, Given.Submission("pending"));
            var report = Given.Now(client.Flush());
            CollectionAssert.AreEqual(new[] { "s1" }, report.Revealed);
            Assert.AreEqual("accepted", report.Outcomes[0].Outcome);
            Assert.AreEqual(0, client.Waiting);
            var kept = File.ReadAllText(Directory.GetFiles(folder, "*.sent.json").Single());
            Assert.IsFalse(kept.Contains("key"), "an accepted run needs no key");
            transport.Then(200, "{\"reveals\":[]}")
                .Then(200, Given.Submission("promoted").Replace("}", ",\"verified\":true}"));
            Assert.AreEqual(0, Given.Now(client.Flush()).Outcomes.Count);
            Assert.AreEqual(0, Directory.GetFiles(folder, "*.json").Length);
        }

        [Test]
        public void TheGatewaysTimeAgesNoEntry()
        {
            var client = Client(); // of a device whose battery was empty: its clock is a year behind
            Later(client, 5);
            Later(client, 6);
            transport.ThenProblem(401, "signature-expired", ",\"server_time\":1731536000");
            transport.Then(202, Given.Receipt).Then(202, Given.Receipt);
            var outcomes = Given.Now(client.Flush()).Outcomes.Select(each => each.Outcome);
            CollectionAssert.AreEqual(new[] { "accepted", "accepted" }, outcomes);
        }

        [Test]
        public void ARecordingOfAnotherPlayerStaysAndARefusedOneHoldsUpNobody()
        {
            var client = Client();
            foreach (var score in new[] { 5, 6 })
            {
                var claim = new Claim(score, 9, new byte[] { 1, 2, 3 });
                Given.Now(client.SubmitLater(Given.Run(), claim, committed: true));
                transport.Then(202, Given.Receipt.Replace("s1", "s" + score));
            }

            const string Asked = "{\"submission\":\"s5\",\"board\":\"tiny\",\"recording_digest\":\"d\","
                + "\"recording_bytes\":3,\"reveal_by\":\"x\"}";
            transport.Then(200, "{\"reveals\":[" + Asked + "," + Asked.Replace("s5", "s6") + "]}");
            transport.ThenProblem(422, "recording-mismatch").Then(200, "{}");
            transport.ThenProblem(404, "not-found").ThenProblem(404, "not-found");
            CollectionAssert.AreEqual(new[] { "s6" }, Given.Now(client.Flush()).Revealed);
            clock.NowS += 59 * 24 * 3600;
            transport.Then(200, "{\"reveals\":[]}").ThenProblem(404, "not-found").ThenProblem(404, "not-found");
            Given.Now(client.Flush());
            Assert.AreEqual(2, Directory.GetFiles(folder, "*.sent.json").Length);
        }

        [Test]
        public void AQueueThatCannotBeWrittenSaysSo()
        {
            Directory.CreateDirectory(Path.GetDirectoryName(folder));
            File.WriteAllText(folder, "a file in its place");
            var error = Assert.Throws<ScoregateError>(() => Later(Client(), 5));
            Assert.AreEqual("queue-unwritable", error.Reason);
            error = Assert.Throws<ScoregateError>(() => Given.Now(Client().Flush()));
            Assert.AreEqual("queue-unwritable", error.Reason);
        }

        private static QueueEntry Later(ScoregateClient client, long score) =>
            Given.Now(client.SubmitLater(Given.Run(), new Claim(score, 9)));

        private ScoregateClient Client() => Given.Client(transport, clock, folder, 1);

        private sealed class Held : ITransport
        {
            private readonly TaskCompletionSource<WireAnswer> answer;

            internal Held(TaskCompletionSource<WireAnswer> answer)
            {
                this.answer = answer;
            }

            public Task<WireAnswer> Send(WireRequest request, System.Threading.CancellationToken cancel) => answer.Task;
        }
    }
}
