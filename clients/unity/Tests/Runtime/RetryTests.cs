using System;
using NUnit.Framework;

namespace Scoregate.Tests
{
    public sealed class RetryTests
    {
        private readonly ListedTransport transport = new ListedTransport();
        private readonly JumpingClock clock = new JumpingClock();

        [Test]
        public void PausesGrowToHalfAMinute()
        {
            for (var attempt = 0; attempt < 9; attempt++)
            {
                transport.Then(500, "");
            }

            var error = Assert.Throws<ScoregateError>(() => Given.Now(Client(9).Board("tiny")));
            Assert.AreEqual(500, error.Status);
            CollectionAssert.AreEqual(new[] { 0.375, 0.75, 1.5, 3, 6, 12, 22.5, 22.5 }, clock.Waits);
        }

        [Test]
        public void ADateToRetryAfterIsUnderstood()
        {
            var date = DateTimeOffset.FromUnixTimeSeconds(1700000007).ToString("r");
            transport.Then(503, "", retryAfter: date).Then(200, Given.Submission("held"));
            Given.Now(Client().Submission("s1"));
            CollectionAssert.AreEqual(new[] { 7.0 }, clock.Waits);
        }

        [Test]
        public void ALongPauseIsLeftToTheGame()
        {
            transport.Then(429, "", retryAfter: "61");
            var error = Assert.Throws<ScoregateError>(() => Given.Now(Client().Submission("s1")));
            Assert.AreEqual(61.0, error.RetryAfterS);
            Assert.AreEqual(0, clock.Waits.Count);
        }

        [Test]
        public void APlayerIsCreatedAgainOnlyIfNobodyCanHaveSeenTheRequest()
        {
            transport.ThenNothing(wasConnected: false).Then(503, "", retryAfter: "0").ThenNothing();
            Assert.Throws<ScoregateError>(() => Given.Now(Client().CreatePlayer("Ada")));
            Assert.AreEqual(3, transport.Lines.Count);
        }

        [Test]
        public void ARetryAfterTheEndOfItsSignatureIsSignedAnew()
        {
            transport.ThenNothing().Then(_ =>
            {
                clock.NowS += 300;
                throw new NoAnswerException("lost", true);
            }).Then(202, Given.Receipt);
            Given.Now(Client().Submit(Given.Run(), new Claim(5, 9)));
            Assert.AreEqual(transport.Signatures[0], transport.Signatures[1]);
            Assert.IsTrue(transport.Signatures[2].Contains("created=" + (long)clock.NowS));
        }

        [Test]
        public void AClockThatStaysWrongIsARefusal()
        {
            transport.ThenProblem(401, "signature-expired", ",\"server_time\":1700009000");
            transport.ThenProblem(401, "signature-expired", ",\"server_time\":1700009000");
            var client = Client();
            var error = Assert.Throws<ScoregateError>(() => Given.Now(client.Submit(Given.Run(), new Claim(5, 9))));
            Assert.AreEqual("signature-expired", error.Reason);
            Assert.AreEqual(9000.0, client.ClockOffsetS);
            Assert.IsTrue(transport.Signatures[1].Contains("created=1700009000"));
        }

        [Test]
        public void NobodyInBetweenAndNoOtherAgeSetsTheClock()
        {
            const string Expired = "{\"type\":\"https://scoregate.dev/problems/signature-expired\",\"server_time\":1800000000}";
            transport.Then(401, Expired, "application/json");
            transport.ThenProblem(401, "signature-expired", ",\"server_time\":999999999999");
            var client = Client();
            Assert.Throws<ScoregateError>(() => Given.Now(client.Submit(Given.Run(), new Claim(5, 9))));
            Assert.Throws<ScoregateError>(() => Given.Now(client.Submit(Given.Run(), new Claim(5, 9))));
            Assert.AreEqual(0.0, client.ClockOffsetS);
        }

        [Test]
        public void ALargeBodyHasMoreTime()
        {
            var request = new WireRequest("PUT", new Uri("https://a.example")) { Body = new byte[4 * 1024 * 1024] };
            Assert.AreEqual(15.0 + 128, request.PatienceS);
        }

        [Test]
        public void TheFolderOfABaseUrlIsPartOfThePath()
        {
            transport.Then(200, "{}");
            Assert.Throws<ScoregateError>(() => Given.Now(Client().Board("tiny")));
            CollectionAssert.AreEqual(new[] { "GET /v0/v1/boards/tiny" }, transport.Lines);
            Assert.Throws<ArgumentException>(() => Given.Now(Client().Board("..")));
        }

        private ScoregateClient Client(int attempts = 6) => Given.Client(transport, clock, attempts: attempts);
    }
}
