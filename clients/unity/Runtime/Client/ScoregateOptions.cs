using System;
using System.Security.Cryptography;

namespace Scoregate
{
    /// <summary>What a client is made of. Leave out what should be as usual.</summary>
    public sealed class ScoregateOptions
    {
        /// <summary>The player's token, to continue as an earlier player.</summary>
        public string Token { get; set; }

        /// <summary>Sends the requests: by UnityWebRequest in Unity, elsewhere by HttpClient.</summary>
        public ITransport Transport { get; set; }

        /// <summary>Tells the time and waits.</summary>
        public IClock Clock { get; set; }

        /// <summary>
        /// The folder of the offline queue: in Unity "scoregate" under Application.persistentDataPath. Null elsewhere,
        /// which means no queue.
        /// </summary>
        public string QueueFolder { get; set; }

        /// <summary>How often a request is tried.</summary>
        public int Attempts { get; set; } = 6;

        /// <summary>The seconds by which the gateway's clock is ahead of the device's, as far as known.</summary>
        public double ClockOffsetS { get; set; }

        /// <summary>Draws a nonce for each signature.</summary>
        public Func<string> Nonce { get; set; } = RandomNonce;

        /// <summary>Draws a number from 0 up to 1, which spreads the retries of many players.</summary>
        public Func<double> Chance { get; set; } = new Random().NextDouble;

        private static string RandomNonce()
        {
            var bytes = new byte[18];
            using (var source = RandomNumberGenerator.Create())
            {
                source.GetBytes(bytes);
            }

            return Convert.ToBase64String(bytes).Replace('+', '-').Replace('/', '_');
        }
    }
}
