using System;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;
using UnityEngine;
using UnityEngine.Networking;

namespace Scoregate.Tests
{
    /// <summary>The parts that touch Unity, over the stub: what they ask of the engine, and what they make of it.</summary>
    public sealed class UnityTests
    {
        private readonly UnityTransport transport = new UnityTransport();
        private readonly CancellationTokenSource cancel = new CancellationTokenSource();

        [TearDown]
        public void LeaveNothingRunning() => Assert.AreEqual(0, Stub.Running);

        [Test]
        public void ARequestGoesOutAsItIs()
        {
            var request = Request().With("Content-Type", "application/json");
            request.Body = new byte[] { 1, 2 };
            var sent = transport.Send(request, cancel.Token);
            var web = UnityWebRequest.Last;
            Assert.AreEqual("https://a.example/v1/boards/a,b", web.uri.AbsoluteUri);
            Assert.AreEqual(0, web.redirectLimit);
            Assert.AreEqual("application/json", web.SentHeaders["Content-Type"]);
            CollectionAssert.AreEqual(request.Body, ((UploadHandlerRaw)web.uploadHandler).Data);
            Assert.IsFalse(sent.IsCompleted);
            web.Answer(404, "text/plain").Piece(Bytes("no")).End(UnityWebRequest.Result.ProtocolError, "HTTP/1.1 404");
            Stub.Frame(0.1);
            Assert.AreEqual(404, sent.Result.Status);
            Assert.AreEqual("no", Encoding.UTF8.GetString(sent.Result.Body));
        }

        [Test]
        public void ARedirectIsAnAnswer()
        {
            var sent = transport.Send(Request(), cancel.Token);
            UnityWebRequest.Last.Answer(302, null).End(UnityWebRequest.Result.ConnectionError, "Redirect limit exceeded");
            Stub.Frame(0.1);
            Assert.AreEqual(302, sent.Result.Status);
        }

        [Test]
        public void ALostConnectionIsNoAnswerAndSaysWhetherThereWasOne()
        {
            foreach (var error in new[] { "Cannot connect to destination host", "Cannot resolve destination host", "Unknown Error" })
            {
                var sent = transport.Send(Request(), cancel.Token);
                UnityWebRequest.Last.End(UnityWebRequest.Result.ConnectionError, error);
                Stub.Frame(0.1);
                Assert.AreEqual(error == "Unknown Error", Lost(sent).WasConnected);
            }

            var half = transport.Send(Request(), cancel.Token);
            UnityWebRequest.Last.Answer(200, "application/json").Piece(Bytes("{")).End(UnityWebRequest.Result.ConnectionError);
            Stub.Frame(0.1);
            Assert.IsTrue(Lost(half).WasConnected);
        }

        [Test]
        public void WhatTakesTooLongOrIsWantedNoMoreIsAborted()
        {
            var late = transport.Send(Request(), cancel.Token);
            Stub.Frame(14.9);
            Assert.IsFalse(late.IsCompleted);
            Stub.Frame(0.2);
            Assert.IsTrue(UnityWebRequest.Last.IsAborted);
            Lost(late);
            var unwanted = transport.Send(Request(), cancel.Token);
            cancel.Cancel();
            Stub.Frame(0.1);
            Assert.IsTrue(unwanted.IsCanceled && UnityWebRequest.Last.IsAborted);
        }

        [Test]
        public void AnAnswerThatIsTooLargeIsCutOff()
        {
            var request = Request();
            request.MostBytes = 3;
            var sent = transport.Send(request, cancel.Token);
            UnityWebRequest.Last.Answer(200, "application/json").Piece(Bytes("123")).Piece(Bytes("4"));
            Stub.Frame(0.1);
            Assert.AreEqual("the answer is too large", Lost(sent).Message);
        }

        [Test]
        public void AFeedIsHandedOnAndOnlySilenceEndsIt()
        {
            var told = "";
            var request = Request();
            request.OnBytes = (bytes, length) => (told += Encoding.UTF8.GetString(bytes, 0, length)).Length < 4;
            var sent = transport.Send(request, cancel.Token);
            var web = UnityWebRequest.Last.Answer(200, "text/event-stream; charset=utf-8");
            for (var piece = 0; piece < 3; piece++)
            {
                web.Piece(Bytes("x"));
                Stub.Frame(10);
            }

            Assert.AreEqual("xxx", told);
            Assert.IsFalse(sent.IsCompleted);
            web.Piece(Bytes("x"));
            Stub.Frame(0.1);
            Assert.AreEqual(0, sent.Result.Body.Length);
        }

        [Test]
        public void WhatUnityRefusesToSendWasNotSent()
        {
            UnityWebRequest.Refusal = new InvalidOperationException("Insecure connection not allowed");
            try
            {
                Assert.IsFalse(Assert.Throws<NoAnswerException>(() => transport.Send(Request(), cancel.Token)).WasConnected);
            }
            finally
            {
                UnityWebRequest.Refusal = null;
            }
        }

        [Test]
        public void AWaitGoesByRealTimeAndEndsWhenNobodyWantsIt()
        {
            var clock = new UnityClock();
            var wait = clock.Wait(1, cancel.Token);
            Stub.Frame(0.9);
            Assert.IsFalse(wait.IsCompleted);
            Stub.Frame(0.2);
            Assert.IsTrue(wait.Status == TaskStatus.RanToCompletion);
            var unwanted = clock.Wait(1, cancel.Token);
            cancel.Cancel();
            Stub.Frame(0.1);
            Assert.IsTrue(unwanted.IsCanceled);
        }

        [Test]
        public void AClientOfUnityAsksByUnityAndKeepsItsQueueInTheGamesFolder()
        {
            Stub.Folder = "/nowhere/games";
            var client = new ScoregateClient("https://a.example");
            Assert.AreEqual(0, client.Waiting);
            var read = client.Boards();
            UnityWebRequest.Last.Answer(200, "application/json").Piece(Bytes("{\"boards\":[],\"next\":null}"))
                .End(UnityWebRequest.Result.Success);
            Stub.Frame(0.1);
            Assert.AreEqual(0, read.Result.Boards.Count);
        }

        private static WireRequest Request() => new WireRequest("GET", new Uri("https://a.example/v1/boards/a,b"));

        private static byte[] Bytes(string text) => Encoding.UTF8.GetBytes(text);

        private static NoAnswerException Lost(Task<WireAnswer> sent) =>
            Assert.Throws<NoAnswerException>(() => sent.GetAwaiter().GetResult());
    }
}
